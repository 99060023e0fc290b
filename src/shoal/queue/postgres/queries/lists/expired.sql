-- A page of expired tasks after id $2. The limit applies before any join, and each row then looks up its own task.
SELECT e.id, e.task, e.expired_at, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay, s.step, s.partition
FROM (SELECT * FROM shoal.expired WHERE run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND id > $2 ORDER BY run, id LIMIT $3) e
CROSS JOIN LATERAL (SELECT * FROM shoal.task WHERE id = e.task OFFSET 0) t
CROSS JOIN LATERAL (SELECT step, partition FROM shoal.section WHERE id = t.section OFFSET 0) s
ORDER BY e.id
