-- Claims: the host queues that are due by the rate limit of their host, their first tasks, and the leases for them.

-- name: claim_look
-- What a claim needs to know of its run before it starts: its state, and whether time has changed anything: a lost lease
-- of any run, an expired task, or a task whose delay is over.
SELECT json_array(
    no, state, host_delay, per_host,
    (SELECT min(deadline) FROM lease),
    (SELECT min(at) FROM expiring WHERE expiring.run = run.no),
    (SELECT min(due) FROM delayed WHERE delayed.run = run.no),
    (SELECT worker.no FROM worker WHERE worker.run = run.no AND worker.name = :worker_id)
)
FROM run WHERE id = :run_id

-- name: claim_step_groups
-- The step groups that match a claim's filters. :steps and :partitions are NULL or lists of names.
SELECT json_group_array(id) FROM step_group
WHERE run = :run
  AND (:steps IS NULL OR step IN (SELECT value FROM json_each(:steps)))
  AND (:partitions IS NULL OR partition IN (SELECT value FROM json_each(:partitions)))

-- name: claim_host_queues
-- The first :limit due host queues of a run, whose hosts' rate limits allow a request (see arm): by falling priority, then
-- the longest waiting first. CROSS JOIN reads the bands (a band is a priority) one by one, each in the order of its index:
-- host queues that are not due, or that come after the last one wanted, are never read.
SELECT json_group_array(json_array(
    id, step_group, host, priority, pending, delay,
    (SELECT count(*) FROM lease WHERE lease.host = due.host AND lease.host > 0),
    slowdown
))
FROM (
    SELECT host_queue.id, host_queue.step_group, host_queue.host, host_queue.priority, host_queue.pending,
        max(host.delay, host.slowdown) AS delay, host.slowdown
    FROM json_each('[9,8,7,6,5,4,3,2,1,0]') band CROSS JOIN host_queue CROSS JOIN host
    WHERE host_queue.run = :run AND host_queue.priority = band.value AND host_queue.due <= :now
      AND host.id = host_queue.host
    LIMIT :limit
) due

-- name: claim_host_queues_of
-- Like claim_host_queues, for the step groups :step groups only.
SELECT json_group_array(json_array(
    id, step_group, host, priority, pending, delay,
    (SELECT count(*) FROM lease WHERE lease.host = due.host AND lease.host > 0),
    slowdown
))
FROM (
    SELECT host_queue.id, host_queue.step_group, host_queue.host, host_queue.priority, host_queue.pending,
        max(host.delay, host.slowdown) AS delay, host.slowdown
    FROM json_each('[9,8,7,6,5,4,3,2,1,0]') band CROSS JOIN json_each(:step_groups) selected
    CROSS JOIN host_queue ON host_queue.id IN (
        SELECT id FROM host_queue WHERE step_group = selected.value AND priority = band.value AND due <= :now
        ORDER BY due LIMIT :limit
    )
    CROSS JOIN host ON host.id = host_queue.host
    ORDER BY host_queue.priority DESC, host_queue.due, host_queue.id LIMIT :limit
) due

-- name: claim_tasks
-- The first tasks of some host queues, as [host queue's position in :wanted, place, attempts so far], by falling priority.
-- :wanted = [[host queue, number of tasks], ...]. Each step seeks the next place of its host queue, so that only those are read.
WITH RECURSIVE front (position, host_queue, count, place) AS (
    SELECT key, value ->> 0, value ->> 1, (SELECT min(place) FROM ready WHERE host_queue = value ->> 0)
    FROM json_each(:wanted)
    UNION ALL
    SELECT position, host_queue, count - 1, (SELECT min(place) FROM ready WHERE host_queue = front.host_queue AND place > front.place)
    FROM front WHERE count > 1 AND place IS NOT NULL
)
SELECT json_group_array(json_array(position, place, attempt)) FROM (
    SELECT front.position, ready.place, ready.attempt
    FROM front CROSS JOIN ready ON ready.host_queue = front.host_queue AND ready.place = front.place
    ORDER BY ready.place >> 52, front.position, ready.place
)

-- name: claim_lease
WITH given (run, worker, host_queue, place, host, attempt, start_at, deadline) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
)
INSERT INTO lease (task, run, host_queue, place, host, attempt, worker, start_at, deadline)
SELECT task.id, given.run, given.host_queue, given.place, given.host, given.attempt, given.worker, given.start_at, given.deadline
FROM given CROSS JOIN task ON task.seq = given.place & 0xfffffffffffff

-- name: claim_unready
DELETE FROM ready WHERE (host_queue, place) IN (SELECT host_queue, place FROM lease WHERE token > :last)

-- name: claim_read
-- The leases of this claim, as the worker gets them.
SELECT json_group_array(json_array(
    lease.token, lower(hex(lease.task)), lease.attempt, lease.deadline,
    json_array(
        task.url, step_group.step, task.payload, task.key, step_group.partition,
        task.priority, task.ttl, task.delay, task.depth
    )
))
FROM lease CROSS JOIN task ON task.seq = lease.place & 0xfffffffffffff
CROSS JOIN host_queue ON host_queue.id = lease.host_queue CROSS JOIN step_group ON step_group.id = host_queue.step_group
WHERE lease.token > :last

-- name: host_write_starts
-- Host 0 has no rate limit; its last start only determines which host queue is next.
WITH given (host, last_at, host_delay, earlier) AS (
    VALUES (?, ?, ?, ?)
)
UPDATE host SET
    last_at = given.last_at, last_gap = iif(host.id = 0, 0, given.host_delay), earlier = given.earlier
FROM given WHERE host.id = given.host

-- name: claim_next_due
-- The next time at which something of this run becomes claimable by time alone; NULL if there is none. Host queues are claimed :lead earlier.
SELECT min(due) FROM (
    SELECT (SELECT min(due) - :lead FROM host_queue WHERE run = :run AND priority = band.value AND due IS NOT NULL) AS due
    FROM json_each('[9,8,7,6,5,4,3,2,1,0]') band
    UNION ALL
    SELECT min(due) FROM delayed WHERE run = :run
)

-- name: claim_next_due_of
-- Like claim_next_due, for the step groups :step groups only. Delayed tasks are not distinguished by step_group: a claim
-- that comes too early is cheap.
SELECT min(due) FROM (
    SELECT (SELECT min(due) - :lead FROM host_queue WHERE step_group = selected.value AND priority = band.value AND due IS NOT NULL) AS due
    FROM json_each('[9,8,7,6,5,4,3,2,1,0]') band CROSS JOIN json_each(:step_groups) selected
    UNION ALL
    SELECT min(due) FROM delayed WHERE run = :run
)

-- name: claim_remaining
SELECT EXISTS (SELECT 1 FROM step_group WHERE run = :run AND pending + delayed + leased > 0)

-- name: arm
-- Where a host's rate limit (rate_limit, DOWNLOAD_DELAY), and its concurrency (per_host), are enforced. Compute when host queues are due and with which
-- priority, from the current state: their first pending task, the leases of their host, and its rate limit. Every call that
-- changes one of these passes the host queues or hosts that it touched, in the same transaction; so a host queue is never
-- out of date.
WITH meant AS (
    SELECT value AS host_queue FROM json_each(:host_queues)
    UNION
    SELECT host_queue.id FROM json_each(:hosts) CROSS JOIN host_queue WHERE host_queue.host = value AND host_queue.host > 0
),
seen AS (
    SELECT host_queue.id, host_queue.host, run.per_host,
        (SELECT min(place) FROM ready WHERE ready.host_queue = host_queue.id) AS place,
        (SELECT count(*) FROM lease WHERE lease.host = host_queue.host AND lease.host > 0) AS live,
        host.last_at, host.paused_until, max(host.last_gap, host.delay, host.slowdown, run.host_delay) AS gap
    FROM meant
    CROSS JOIN host_queue ON host_queue.id = meant.host_queue
    CROSS JOIN run ON run.no = host_queue.run
    CROSS JOIN host ON host.id = host_queue.host
),
new AS MATERIALIZED (
    SELECT id, 9 - (place >> 52) AS priority, CASE
        WHEN place IS NULL THEN NULL
        WHEN host = 0 THEN last_at
        WHEN live >= per_host THEN NULL
        ELSE max(paused_until, last_at + gap)
    END AS due
    FROM seen
)
UPDATE host_queue SET priority = new.priority, due = new.due
FROM new
WHERE host_queue.id = new.id AND (host_queue.priority IS NOT new.priority OR host_queue.due IS NOT new.due)
