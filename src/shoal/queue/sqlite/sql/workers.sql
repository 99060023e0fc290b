-- Workers: their heartbeats and counts.

-- name: worker_beat
INSERT INTO worker (run, name, state, info, beat_at) VALUES (:run, :worker_id, :state, :info, :now)
ON CONFLICT (run, name) DO UPDATE SET state = :state, info = :info, beat_at = :now

-- name: worker_number
-- The number of a worker in a run, which is created if necessary.
INSERT INTO worker (run, name) VALUES (:run, :worker_id)
ON CONFLICT (run, name) DO UPDATE SET name = name
RETURNING no

-- name: worker_read
-- The workers that have sent a heartbeat, of one run or of all.
SELECT json_group_array(json_array(
    name, id, state, info, beat_at, leased, completed, failed, items
))
FROM (
    SELECT worker.name, run.id, worker.state, worker.info, worker.beat_at, ifnull(held.leased, 0) AS leased,
        worker.completed, worker.failed, worker.items
    FROM worker JOIN run ON run.no = worker.run
    LEFT JOIN (SELECT worker, count(*) AS leased FROM lease GROUP BY worker) held ON held.worker = worker.no
    WHERE worker.beat_at IS NOT NULL AND (:run IS NULL OR worker.run = :run)
    ORDER BY run.no, worker.no
)
