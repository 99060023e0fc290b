-- New tasks: the lanes and sections that they belong to, the tasks, and their first state.

-- name: lane_find
-- The numbers of lanes, NULL for one that does not exist, in the order of :names = [[step, partition, host], ...].
SELECT json_group_array(id) FROM (
    SELECT (
        SELECT lane.id FROM host CROSS JOIN section CROSS JOIN lane
        WHERE host.name = n.value ->> 2
          AND section.run = :run AND section.step = n.value ->> 0 AND section.partition = n.value ->> 1
          AND lane.host = host.id AND lane.run = :run AND lane.section = section.id
    ) AS id
    FROM json_each(:names) n ORDER BY n.key
)

-- name: lane_add_hosts
INSERT INTO host (name) SELECT value ->> 2 FROM json_each(:names) WHERE true
ON CONFLICT (name) DO NOTHING

-- name: lane_add_sections
INSERT INTO section (run, step, partition)
SELECT DISTINCT :run, value ->> 0, value ->> 1 FROM json_each(:names) WHERE true
ON CONFLICT (run, step, partition) DO NOTHING

-- name: lane_add
INSERT INTO lane (run, section, host)
SELECT :run, section.id, host.id
FROM json_each(:names) n CROSS JOIN host CROSS JOIN section
WHERE host.name = n.value ->> 2
  AND section.run = :run AND section.step = n.value ->> 0 AND section.partition = n.value ->> 1
ON CONFLICT (host, run, section) DO NOTHING

-- name: lane_section
SELECT section FROM lane WHERE id = :lane

-- name: task_add
-- Duplicates write nothing; of two tasks with the same key, the first one stays.
WITH given (run, now, id, lane, priority, depth, ttl, delay, url, key, payload) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)
INSERT INTO task (run, id, lane, priority, depth, ttl, delay, expires_at, url, key, payload)
SELECT run, id, lane, priority, depth, ttl, delay, now + ttl, url, key, payload
FROM given WHERE run IS NOT NULL
ON CONFLICT (run, id) DO NOTHING

-- name: task_known
SELECT 1 FROM task WHERE run = :run AND id = :id

-- name: task_make_ready
INSERT INTO ready (lane, place, attempt)
SELECT lane, (9 - priority) << 52 | seq, 0 FROM task WHERE seq > :last AND delay IS NULL

-- name: task_make_delayed
INSERT INTO delayed (seq, run, due, lane, place, attempt)
SELECT seq, run, :now + delay, lane, (9 - priority) << 52 | seq, 0 FROM task WHERE seq > :last AND delay IS NOT NULL

-- name: task_make_mortal
INSERT INTO expiry (run, at, seq)
SELECT run, expires_at, seq FROM task WHERE seq > :last AND expires_at IS NOT NULL

-- name: task_lanes
SELECT json_group_array(DISTINCT lane) FROM task WHERE seq > :last

-- name: task_count_lanes
UPDATE lane SET pending = lane.pending + fresh.pending, delayed = lane.delayed + fresh.delayed
FROM (
    SELECT lane, count(*) FILTER (WHERE delay IS NULL) AS pending, count(delay) AS delayed
    FROM task WHERE seq > :last GROUP BY lane
) fresh
WHERE lane.id = fresh.lane

-- name: task_count_sections
UPDATE section SET pending = section.pending + fresh.pending, delayed = section.delayed + fresh.delayed
FROM (
    SELECT lane.section, count(*) FILTER (WHERE task.delay IS NULL) AS pending, count(task.delay) AS delayed
    FROM task CROSS JOIN lane WHERE task.seq > :last AND lane.id = task.lane GROUP BY lane.section
) fresh
WHERE section.id = fresh.section

-- name: ready_add
WITH given (lane, place, attempt) AS (
    VALUES (?, ?, ?)
)
INSERT INTO ready (lane, place, attempt) SELECT lane, place, attempt FROM given WHERE lane IS NOT NULL

-- name: ready_remove
-- :tasks = [[lane, place], ...]
DELETE FROM ready WHERE (lane, place) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:tasks))

-- name: delayed_add
WITH given (run, lane, place, attempt, due) AS (
    VALUES (?, ?, ?, ?, ?)
)
INSERT INTO delayed (seq, run, lane, place, attempt, due)
SELECT place & 0xfffffffffffff, run, lane, place, attempt, due FROM given WHERE run IS NOT NULL

-- name: delayed_remove
DELETE FROM delayed WHERE seq IN (SELECT value & 0xfffffffffffff FROM json_each(:places))

-- name: mortal_again
-- Waiting tasks may expire again. :places are those of the tasks.
INSERT INTO expiry (run, at, seq)
SELECT task.run, task.expires_at, task.seq
FROM json_each(:places) p CROSS JOIN task
WHERE task.seq = p.value & 0xfffffffffffff AND task.expires_at IS NOT NULL
ON CONFLICT DO NOTHING
