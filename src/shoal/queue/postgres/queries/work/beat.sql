-- Record the heartbeats of some workers of a run, in the order of their ids, so that two calls never deadlock; returns no row if the run does not exist.
INSERT INTO shoal.worker (worker_id, run, state, info, beat_at)
SELECT b.worker_id, r.id, b.state, b.info, clock_timestamp()
FROM shoal.run r CROSS JOIN unnest($1::text[], $3::text[], $4::text[]) AS b(worker_id, state, info)
WHERE r.run_id = $2
ORDER BY b.worker_id
ON CONFLICT (worker_id) DO UPDATE
SET run = excluded.run, state = excluded.state, info = excluded.info, beat_at = excluded.beat_at
RETURNING true
