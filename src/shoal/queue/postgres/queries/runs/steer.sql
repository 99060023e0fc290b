-- Set the state of a run if its current state allows it.
UPDATE shoal.run SET state = $2, reason = $3 WHERE run_id = $1 AND state = ANY ($4::text[])
