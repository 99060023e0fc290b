-- Bring a run into a state, where the one that it is in allows it.
UPDATE shoal.run SET state = $2, reason = $3 WHERE run_id = $1 AND state = ANY ($4::text[])
