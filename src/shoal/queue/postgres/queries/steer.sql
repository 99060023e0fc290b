-- Pause, resume or cancel a run; what was cancelled stays so.
UPDATE shoal.run SET state = $2 WHERE run_id = $1 AND state <> 'cancelled'
