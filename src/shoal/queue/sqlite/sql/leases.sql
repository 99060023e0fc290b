-- Leases: those that are settled, extended, lost or abandoned; and tasks whose time has come.

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
    lease.token, lower(hex(lease.task)), run.id, run.no, lane.id, lane.section, lease.place, lease.host,
    lease.attempt, lease.worker, run.max_attempts, run.ttl, lease.start_at
))
FROM json_each(:tokens) t CROSS JOIN lease ON lease.token = t.value
CROSS JOIN lane ON lane.id = lease.lane CROSS JOIN run ON run.no = lease.run

-- name: lease_lost
-- The leases whose deadline has passed, as lease_held returns them.
SELECT json_group_array(json_array(
    lease.token, lower(hex(lease.task)), run.id, run.no, lane.id, lane.section, lease.place, lease.host,
    lease.attempt, lease.worker, run.max_attempts, run.ttl, lease.start_at
))
FROM (SELECT token FROM lease WHERE deadline <= :now ORDER BY deadline LIMIT :limit) lost
CROSS JOIN lease ON lease.token = lost.token
CROSS JOIN lane ON lane.id = lease.lane CROSS JOIN run ON run.no = lease.run

-- name: lease_of_worker
-- The live leases of a worker in any run, as lease_held returns them. Leases are few and workers rarely die, so all
-- of them are scanned: an index would cost every claim.
SELECT json_group_array(json_array(
    lease.token, lower(hex(lease.task)), run.id, run.no, lane.id, lane.section, lease.place, lease.host,
    lease.attempt, lease.worker, run.max_attempts, run.ttl, lease.start_at
))
FROM lease CROSS JOIN worker ON worker.no = lease.worker AND worker.name = :worker_id
CROSS JOIN lane ON lane.id = lease.lane CROSS JOIN run ON run.no = lease.run

-- name: sections_of
-- The sections of some runs that belong to these steps.
SELECT json_group_array(id) FROM section
WHERE run IN (SELECT value FROM json_each(:runs)) AND step IN (SELECT value FROM json_each(:steps))

-- name: token_draw
-- A token for an entry of a history that is not an attempt. The table has a row, because a dead letter had a lease.
UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'lease' RETURNING seq

-- name: sweep_due
-- Tasks whose delay is over, as [lane, section, place, attempts so far].
SELECT json_group_array(json_array(lane.id, lane.section, due.place, due.attempt))
FROM (SELECT lane, place, attempt FROM delayed WHERE run = :run AND due <= :now ORDER BY due LIMIT :limit) due
CROSS JOIN lane ON lane.id = due.lane

-- name: sweep_expire
INSERT INTO expired (run, seq, expired_at)
SELECT :run, value & 0xfffffffffffff, :now FROM json_each(:places)

-- name: sweep_looked
DELETE FROM expiry WHERE (run, at, seq) IN (
    SELECT run, at, seq FROM expiry WHERE run = :run AND at <= :now ORDER BY at, seq LIMIT :limit
)

-- name: sweep_outlived
-- Tasks whose expiry is to be checked, as [lane, section, place, pending, delayed]. Those that still wait have expired,
-- unless a replay has given them a new time to live: that has a row of its own.
SELECT json_group_array(json_array(
    lane.id, lane.section, old.place,
    old.over AND EXISTS (SELECT 1 FROM ready WHERE ready.lane = lane.id AND ready.place = old.place),
    old.over AND EXISTS (SELECT 1 FROM delayed WHERE delayed.seq = old.seq)
))
FROM (
    SELECT task.seq, task.lane, (9 - task.priority) << 52 | task.seq AS place, task.expires_at = looked.at AS over
    FROM (SELECT at, seq FROM expiry WHERE run = :run AND at <= :now ORDER BY at, seq LIMIT :limit) looked
    CROSS JOIN task ON task.seq = looked.seq
) old
CROSS JOIN lane ON lane.id = old.lane

-- name: sweep_runs
-- The runs with a task that has expired, or whose delay is over.
SELECT json_group_array(no) FROM run
WHERE EXISTS (SELECT 1 FROM expiry WHERE expiry.run = run.no AND expiry.at <= :now)
   OR EXISTS (SELECT 1 FROM delayed WHERE delayed.run = run.no AND delayed.due <= :now)
