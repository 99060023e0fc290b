-- The ids among $2 that belong to tasks of a run.
SELECT t.id FROM shoal.task t
WHERE t.id = ANY ($2::bytea[]) AND t.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1)
