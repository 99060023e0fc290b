-- A page of items behind id $2.
SELECT i.id, i.task, i.stored_at, i.data, t.url, s.step
FROM shoal.run r
JOIN shoal.item i ON i.run = r.id AND i.id > $2
JOIN shoal.task t ON t.id = i.task
JOIN shoal.section s ON s.id = t.section
WHERE r.run_id = $1 AND ($4::text IS NULL OR s.step = $4)
ORDER BY i.id
LIMIT $3
