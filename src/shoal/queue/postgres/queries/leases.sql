-- Leases and the workers that hold them.

-- name: newest_token
-- The last token assigned: no lease has a larger one.
SELECT last_value FROM shoal.token_seq

-- name: extend_worker
-- The table holds live leases only and a worker is seldom silent, so it is scanned: see 65_abandon.sql.
-- A lease that another call has locked is being settled, extended or taken back; waiting for it could deadlock.
WITH held AS (
    SELECT task FROM shoal.lease WHERE worker = $1 AND deadline > clock_timestamp() FOR UPDATE SKIP LOCKED
), extended AS (
    UPDATE shoal.lease l SET deadline = clock_timestamp() + $2::interval FROM held WHERE l.task = held.task RETURNING 1
)
SELECT count(*) FROM extended

-- name: beat
-- Record the heartbeats of some workers of a run, in the order of their ids, so that two calls never deadlock; returns no row if the run does not exist.
INSERT INTO shoal.worker (worker_id, run, state, info, beat_at)
SELECT b.worker_id, r.id, b.state, b.info, clock_timestamp()
FROM shoal.run r CROSS JOIN unnest($1::text[], $3::text[], $4::text[]) AS b(worker_id, state, info)
WHERE r.run_id = $2
ORDER BY b.worker_id
ON CONFLICT (worker_id) DO UPDATE
SET run = excluded.run, state = excluded.state, info = excluded.info, beat_at = excluded.beat_at
RETURNING true

-- name: workers
-- The workers of one run or of all, with their leases and counters. The caller folds first.
SELECT w.worker_id, r.run_id, w.state, w.info, clock_timestamp() - w.beat_at AS last_beat,
       coalesce(max(held.count), 0) AS leased,
       coalesce(sum(t.count) FILTER (WHERE t.kind = 3), 0)::bigint AS completed,
       coalesce(sum(t.count) FILTER (WHERE t.kind = 9), 0)::bigint AS failed,
       coalesce(sum(t.count) FILTER (WHERE t.kind = 7), 0)::bigint AS items
FROM shoal.worker w
JOIN shoal.run r ON r.id = w.run
LEFT JOIN (SELECT worker, run, count(*) AS count FROM shoal.lease GROUP BY 1, 2) held ON held.worker = w.worker_id AND held.run = w.run
LEFT JOIN shoal.worker_counters t ON t.run = w.run AND t.worker = w.worker_id
WHERE $1::text IS NULL OR r.run_id = $1
GROUP BY w.worker_id, r.run_id, w.state, w.info, w.beat_at, w.run
ORDER BY w.worker_id
