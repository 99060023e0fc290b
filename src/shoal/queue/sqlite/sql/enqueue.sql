-- New tasks: the host queues and step groups that they belong to, the tasks, and their first state.

-- name: host_queue_find
-- The numbers of host queues, NULL for one that does not exist, in the order of :names = [[step, partition, host], ...].
SELECT json_group_array(id) FROM (
    SELECT (
        SELECT host_queue.id FROM host CROSS JOIN step_group CROSS JOIN host_queue
        WHERE host.name = n.value ->> 2
          AND step_group.run = :run AND step_group.step = n.value ->> 0 AND step_group.partition = n.value ->> 1
          AND host_queue.host = host.id AND host_queue.run = :run AND host_queue.step_group = step_group.id
    ) AS id
    FROM json_each(:names) n ORDER BY n.key
)

-- name: host_queue_add_hosts
INSERT INTO host (name) SELECT value ->> 2 FROM json_each(:names) WHERE true
ON CONFLICT (name) DO NOTHING

-- name: host_queue_add_step_groups
INSERT INTO step_group (run, step, partition)
SELECT DISTINCT :run, value ->> 0, value ->> 1 FROM json_each(:names) WHERE true
ON CONFLICT (run, step, partition) DO NOTHING

-- name: host_queue_add
INSERT INTO host_queue (run, step_group, host)
SELECT :run, step_group.id, host.id
FROM json_each(:names) n CROSS JOIN host CROSS JOIN step_group
WHERE host.name = n.value ->> 2
  AND step_group.run = :run AND step_group.step = n.value ->> 0 AND step_group.partition = n.value ->> 1
ON CONFLICT (host, run, step_group) DO NOTHING

-- name: host_queue_step_group
SELECT step_group FROM host_queue WHERE id = :host_queue

-- name: task_add
-- The dupefilter: a duplicate writes nothing; of two tasks with the same key, the first one stays.
WITH given (run, now, id, host_queue, priority, depth, ttl, delay, url, key, payload) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)
INSERT INTO task (run, id, host_queue, priority, depth, ttl, delay, expires_at, url, key, payload)
SELECT run, id, host_queue, priority, depth, ttl, delay, now + ttl, url, key, payload
FROM given WHERE run IS NOT NULL
ON CONFLICT (run, id) DO NOTHING

-- name: task_known
SELECT 1 FROM task WHERE run = :run AND id = :id

-- name: task_make_ready
INSERT INTO ready (host_queue, place, attempt)
SELECT host_queue, (9 - priority) << 52 | seq, 0 FROM task WHERE seq > :last AND delay IS NULL

-- name: task_make_delayed
INSERT INTO delayed (seq, run, due, host_queue, place, attempt)
SELECT seq, run, :now + delay, host_queue, (9 - priority) << 52 | seq, 0 FROM task WHERE seq > :last AND delay IS NOT NULL

-- name: task_make_expiring
INSERT INTO expiring (run, at, seq)
SELECT run, expires_at, seq FROM task WHERE seq > :last AND expires_at IS NOT NULL

-- name: task_host_queues
SELECT json_group_array(DISTINCT host_queue) FROM task WHERE seq > :last

-- name: task_count_host_queues
UPDATE host_queue SET pending = host_queue.pending + fresh.pending, delayed = host_queue.delayed + fresh.delayed
FROM (
    SELECT host_queue, count(*) FILTER (WHERE delay IS NULL) AS pending, count(delay) AS delayed
    FROM task WHERE seq > :last GROUP BY host_queue
) fresh
WHERE host_queue.id = fresh.host_queue

-- name: task_count_step_groups
UPDATE step_group SET pending = step_group.pending + fresh.pending, delayed = step_group.delayed + fresh.delayed
FROM (
    SELECT host_queue.step_group, count(*) FILTER (WHERE task.delay IS NULL) AS pending, count(task.delay) AS delayed
    FROM task CROSS JOIN host_queue WHERE task.seq > :last AND host_queue.id = task.host_queue GROUP BY host_queue.step_group
) fresh
WHERE step_group.id = fresh.step_group

-- name: ready_add
WITH given (host_queue, place, attempt) AS (
    VALUES (?, ?, ?)
)
INSERT INTO ready (host_queue, place, attempt) SELECT host_queue, place, attempt FROM given WHERE host_queue IS NOT NULL

-- name: ready_remove
-- :tasks = [[host queue, place], ...]
DELETE FROM ready WHERE (host_queue, place) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:tasks))

-- name: delayed_add
WITH given (run, host_queue, place, attempt, due) AS (
    VALUES (?, ?, ?, ?, ?)
)
INSERT INTO delayed (seq, run, host_queue, place, attempt, due)
SELECT place & 0xfffffffffffff, run, host_queue, place, attempt, due FROM given WHERE run IS NOT NULL

-- name: delayed_remove
DELETE FROM delayed WHERE seq IN (SELECT value & 0xfffffffffffff FROM json_each(:places))

-- name: expire_again
-- Waiting tasks may expire again. :places are those of the tasks.
INSERT INTO expiring (run, at, seq)
SELECT task.run, task.expires_at, task.seq
FROM json_each(:places) p CROSS JOIN task
WHERE task.seq = p.value & 0xfffffffffffff AND task.expires_at IS NOT NULL
ON CONFLICT DO NOTHING
