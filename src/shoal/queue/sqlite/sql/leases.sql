-- Leases: those that are settled, renewed (lease_extend), lost or abandoned; and tasks whose time has come.

-- name: lease_end
DELETE FROM lease WHERE token IN (SELECT value FROM json_each(:tokens))

-- name: lease_extend
UPDATE lease SET deadline = :deadline WHERE token IN (SELECT value FROM json_each(:tokens))

-- name: lease_extend_worker
-- Leases are few and a worker is seldom silent, so all of them are scanned: see lease_of_worker.
UPDATE lease SET deadline = :deadline
WHERE deadline > :now AND worker IN (SELECT no FROM worker WHERE name = :worker_id)

-- name: lease_held
-- The live leases among :tokens, with what is needed to end them.
SELECT json_group_array(json_array(
    lease.token, lower(hex(lease.task)), run.id, run.no, host_queue.id, host_queue.step_group, lease.place, lease.host,
    lease.attempt, lease.worker, run.max_attempts, run.ttl, lease.start_at
))
FROM json_each(:tokens) t CROSS JOIN lease ON lease.token = t.value
CROSS JOIN host_queue ON host_queue.id = lease.host_queue CROSS JOIN run ON run.no = lease.run

-- name: lease_lost
-- The lost leases, which a reclaim or a claim ends: those whose deadline has passed, as lease_held returns them.
SELECT json_group_array(json_array(
    lease.token, lower(hex(lease.task)), run.id, run.no, host_queue.id, host_queue.step_group, lease.place, lease.host,
    lease.attempt, lease.worker, run.max_attempts, run.ttl, lease.start_at
))
FROM (SELECT token FROM lease WHERE deadline <= :now ORDER BY deadline LIMIT :limit) lost
CROSS JOIN lease ON lease.token = lost.token
CROSS JOIN host_queue ON host_queue.id = lease.host_queue CROSS JOIN run ON run.no = lease.run

-- name: lease_of_worker
-- The live leases of a worker in any run, as lease_held returns them. Leases are few and workers rarely die, so all
-- of them are scanned: an index would cost every claim.
SELECT json_group_array(json_array(
    lease.token, lower(hex(lease.task)), run.id, run.no, host_queue.id, host_queue.step_group, lease.place, lease.host,
    lease.attempt, lease.worker, run.max_attempts, run.ttl, lease.start_at
))
FROM lease CROSS JOIN worker ON worker.no = lease.worker AND worker.name = :worker_id
CROSS JOIN host_queue ON host_queue.id = lease.host_queue CROSS JOIN run ON run.no = lease.run

-- name: step_groups_of
-- The step groups of some runs that belong to these steps.
SELECT json_group_array(id) FROM step_group
WHERE run IN (SELECT value FROM json_each(:runs)) AND step IN (SELECT value FROM json_each(:steps))

-- name: token_draw
-- A token for an entry of a history that is not an attempt. The table has a row, because a dead letter had a lease.
UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'lease' RETURNING seq

-- name: sweep_due
-- Tasks whose delay is over, as [host queue, step group, place, attempts so far].
SELECT json_group_array(json_array(host_queue.id, host_queue.step_group, due.place, due.attempt))
FROM (SELECT host_queue, place, attempt FROM delayed WHERE run = :run AND due <= :now ORDER BY due LIMIT :limit) due
CROSS JOIN host_queue ON host_queue.id = due.host_queue

-- name: sweep_expire
INSERT INTO expired (run, seq, expired_at)
SELECT :run, value & 0xfffffffffffff, :now FROM json_each(:places)

-- name: sweep_checked
DELETE FROM expiring WHERE (run, at, seq) IN (
    SELECT run, at, seq FROM expiring WHERE run = :run AND at <= :now ORDER BY at, seq LIMIT :limit
)

-- name: sweep_outlived
-- Tasks whose expiry is to be checked, as [host queue, step group, place, pending, delayed]. Those that still wait have expired,
-- unless a replay has given them a new time to live: that has a row of its own.
SELECT json_group_array(json_array(
    host_queue.id, host_queue.step_group, old.place,
    old.over AND EXISTS (SELECT 1 FROM ready WHERE ready.host_queue = host_queue.id AND ready.place = old.place),
    old.over AND EXISTS (SELECT 1 FROM delayed WHERE delayed.seq = old.seq)
))
FROM (
    SELECT task.seq, task.host_queue, (9 - task.priority) << 52 | task.seq AS place, task.expires_at = looked.at AS over
    FROM (SELECT at, seq FROM expiring WHERE run = :run AND at <= :now ORDER BY at, seq LIMIT :limit) looked
    CROSS JOIN task ON task.seq = looked.seq
) old
CROSS JOIN host_queue ON host_queue.id = old.host_queue

-- name: sweep_runs
-- The runs with a task that has expired, or whose delay is over.
SELECT json_group_array(no) FROM run
WHERE EXISTS (SELECT 1 FROM expiring WHERE expiring.run = run.no AND expiring.at <= :now)
   OR EXISTS (SELECT 1 FROM delayed WHERE delayed.run = run.no AND delayed.due <= :now)
