-- Record a worker's heartbeat; returns no row if the run does not exist.
INSERT INTO shoal.worker (worker_id, run, state, info, beat_at)
SELECT $1, id, $3, $4, clock_timestamp() FROM shoal.run WHERE run_id = $2
ON CONFLICT (worker_id) DO UPDATE
SET run = excluded.run, state = excluded.state, info = excluded.info, beat_at = excluded.beat_at
RETURNING true
