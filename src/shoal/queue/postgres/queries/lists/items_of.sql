-- How many items each of these tasks has yielded: scans all items of the run.
SELECT i.task, count(*) AS items FROM shoal.item i
WHERE i.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND i.task = ANY ($2::bytea[])
GROUP BY i.task
