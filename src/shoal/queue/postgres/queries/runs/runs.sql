-- All runs, the newest first, or the one with this id.
SELECT * FROM shoal.run WHERE $1::text IS NULL OR run_id = $1 ORDER BY id DESC
