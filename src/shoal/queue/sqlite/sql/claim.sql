-- Claims: the lanes that are due, their first tasks, and the leases for them.

-- name: claim_look
-- What a claim needs to know of its run before it starts: its state, and whether time has changed anything: a lost lease
-- of any run, an expired task, or a task whose delay is over.
SELECT json_array(
    no, state, host_delay, per_host,
    (SELECT min(deadline) FROM lease),
    (SELECT min(at) FROM expiry WHERE expiry.run = run.no),
    (SELECT min(due) FROM delayed WHERE delayed.run = run.no),
    (SELECT worker.no FROM worker WHERE worker.run = run.no AND worker.name = :worker_id)
)
FROM run WHERE id = :run_id

-- name: claim_sections
-- The sections that match a claim's filters. :steps and :partitions are NULL or lists of names.
SELECT json_group_array(id) FROM section
WHERE run = :run
  AND (:steps IS NULL OR step IN (SELECT value FROM json_each(:steps)))
  AND (:partitions IS NULL OR partition IN (SELECT value FROM json_each(:partitions)))

-- name: claim_lanes
-- The first :limit due lanes of a run: by falling priority, then the longest waiting first.
-- CROSS JOIN reads the bands one by one, each in the order of its index: lanes that are not due, or that come
-- after the last one wanted, are never read.
SELECT json_group_array(json_array(
    id, section, host, priority, pending, delay,
    (SELECT count(*) FROM lease WHERE lease.host = due.host AND lease.host > 0),
    slowdown
))
FROM (
    SELECT lane.id, lane.section, lane.host, lane.priority, lane.pending,
        max(host.delay, host.slowdown) AS delay, host.slowdown
    FROM json_each('[9,8,7,6,5,4,3,2,1,0]') band CROSS JOIN lane CROSS JOIN host
    WHERE lane.run = :run AND lane.priority = band.value AND lane.due <= :now
      AND host.id = lane.host
    LIMIT :limit
) due

-- name: claim_lanes_of
-- Like claim_lanes, for the sections :sections only.
SELECT json_group_array(json_array(
    id, section, host, priority, pending, delay,
    (SELECT count(*) FROM lease WHERE lease.host = due.host AND lease.host > 0),
    slowdown
))
FROM (
    SELECT lane.id, lane.section, lane.host, lane.priority, lane.pending,
        max(host.delay, host.slowdown) AS delay, host.slowdown
    FROM json_each('[9,8,7,6,5,4,3,2,1,0]') band CROSS JOIN json_each(:sections) part
    CROSS JOIN lane ON lane.id IN (
        SELECT id FROM lane WHERE section = part.value AND priority = band.value AND due <= :now
        ORDER BY due LIMIT :limit
    )
    CROSS JOIN host ON host.id = lane.host
    ORDER BY lane.priority DESC, lane.due, lane.id LIMIT :limit
) due

-- name: claim_tasks
-- The first tasks of some lanes, as [lane's position in :wanted, place, attempts so far], by falling priority.
-- :wanted = [[lane, number of tasks], ...]. Each step seeks the next place of its lane, so that only those are read.
WITH RECURSIVE front (position, lane, count, place) AS (
    SELECT key, value ->> 0, value ->> 1, (SELECT min(place) FROM ready WHERE lane = value ->> 0)
    FROM json_each(:wanted)
    UNION ALL
    SELECT position, lane, count - 1, (SELECT min(place) FROM ready WHERE lane = front.lane AND place > front.place)
    FROM front WHERE count > 1 AND place IS NOT NULL
)
SELECT json_group_array(json_array(position, place, attempt)) FROM (
    SELECT front.position, ready.place, ready.attempt
    FROM front CROSS JOIN ready ON ready.lane = front.lane AND ready.place = front.place
    ORDER BY ready.place >> 52, front.position, ready.place
)

-- name: claim_lease
WITH given (run, worker, lane, place, host, attempt, start_at, deadline) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
)
INSERT INTO lease (task, run, lane, place, host, attempt, worker, start_at, deadline)
SELECT task.id, given.run, given.lane, given.place, given.host, given.attempt, given.worker, given.start_at, given.deadline
FROM given CROSS JOIN task ON task.seq = given.place & 0xfffffffffffff

-- name: claim_unready
DELETE FROM ready WHERE (lane, place) IN (SELECT lane, place FROM lease WHERE token > :last)

-- name: claim_read
-- The leases of this claim, as the worker gets them.
SELECT json_group_array(json_array(
    lease.token, lower(hex(lease.task)), lease.attempt, lease.deadline,
    json_array(
        task.url, section.step, task.payload, task.key, section.partition,
        task.priority, task.ttl, task.delay, task.depth
    )
))
FROM lease CROSS JOIN task ON task.seq = lease.place & 0xfffffffffffff
CROSS JOIN lane ON lane.id = lease.lane CROSS JOIN section ON section.id = lane.section
WHERE lease.token > :last

-- name: claim_gates
-- Host 0 has no rate limit; its last start only determines which lane is next.
WITH given (host, last_start, host_delay, earlier) AS (
    VALUES (?, ?, ?, ?)
)
UPDATE host SET
    last_start = given.last_start, last_delay = iif(host.id = 0, 0, given.host_delay), earlier = given.earlier
FROM given WHERE host.id = given.host

-- name: claim_next_due
-- The next time at which something of this run becomes claimable by time alone; NULL if there is none. Lanes are claimed :lead earlier.
SELECT min(due) FROM (
    SELECT (SELECT min(due) - :lead FROM lane WHERE run = :run AND priority = band.value AND due IS NOT NULL) AS due
    FROM json_each('[9,8,7,6,5,4,3,2,1,0]') band
    UNION ALL
    SELECT min(due) FROM delayed WHERE run = :run
)

-- name: claim_next_due_of
-- Like claim_next_due, for the sections :sections only. Delayed tasks are not distinguished by section: a claim
-- that comes too early is cheap.
SELECT min(due) FROM (
    SELECT (SELECT min(due) - :lead FROM lane WHERE section = part.value AND priority = band.value AND due IS NOT NULL) AS due
    FROM json_each('[9,8,7,6,5,4,3,2,1,0]') band CROSS JOIN json_each(:sections) part
    UNION ALL
    SELECT min(due) FROM delayed WHERE run = :run
)

-- name: claim_remaining
SELECT EXISTS (SELECT 1 FROM section WHERE run = :run AND pending + delayed + leased > 0)

-- name: arm
-- Compute when lanes are due and with which priority, from the current state: their first pending task, the leases of
-- their host, and its limits. Every call that changes one of these passes the lanes or hosts that it touched, in the same
-- transaction; so a lane is never out of date.
WITH meant AS (
    SELECT value AS lane FROM json_each(:lanes)
    UNION
    SELECT lane.id FROM json_each(:hosts) CROSS JOIN lane WHERE lane.host = value AND lane.host > 0
),
seen AS (
    SELECT lane.id, lane.host, run.per_host,
        (SELECT min(place) FROM ready WHERE ready.lane = lane.id) AS place,
        (SELECT count(*) FROM lease WHERE lease.host = lane.host AND lease.host > 0) AS live,
        host.last_start, host.paused_until, max(host.last_delay, host.delay, host.slowdown, run.host_delay) AS gap
    FROM meant
    CROSS JOIN lane ON lane.id = meant.lane
    CROSS JOIN run ON run.no = lane.run
    CROSS JOIN host ON host.id = lane.host
),
new AS MATERIALIZED (
    SELECT id, 9 - (place >> 52) AS priority, CASE
        WHEN place IS NULL THEN NULL
        WHEN host = 0 THEN last_start
        WHEN live >= per_host THEN NULL
        ELSE max(paused_until, last_start + gap)
    END AS due
    FROM seen
)
UPDATE lane SET priority = new.priority, due = new.due
FROM new
WHERE lane.id = new.id AND (lane.priority IS NOT new.priority OR lane.due IS NOT new.due)
