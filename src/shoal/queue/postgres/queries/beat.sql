-- Note that a worker is alive; no row comes back when there is no such run.
INSERT INTO shoal.worker (worker_id, run, state, info, beat_at)
SELECT $1, id, $3, $4, clock_timestamp() FROM shoal.run WHERE run_id = $2
ON CONFLICT (worker_id) DO UPDATE
SET run = excluded.run, state = excluded.state, info = excluded.info, beat_at = excluded.beat_at
RETURNING true
