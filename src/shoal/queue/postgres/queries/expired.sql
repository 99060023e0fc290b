-- A page of expired tasks behind id $2.
SELECT e.id, e.task, e.expired_at, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay, s.step, s.partition
FROM shoal.run r
JOIN shoal.expired e ON e.run = r.id AND e.id > $2
JOIN shoal.task t ON t.id = e.task
JOIN shoal.section s ON s.id = t.section
WHERE r.run_id = $1
ORDER BY e.id
LIMIT $3
