-- Dead letters: found, listed, replayed, dropped and edited.

-- name: dead_add
WITH given (run, place, attempts, buried_at, error) AS (
    VALUES (?, ?, ?, ?, ?)
)
INSERT INTO dead (run, seq, attempts, buried_at, error)
SELECT run, place & 0xfffffffffffff, attempts, buried_at, error FROM given WHERE run IS NOT NULL

-- name: dead_after
-- A page of dead letters, the oldest first; their numbers only.
SELECT json_group_array(no) FROM (SELECT no FROM dead WHERE run = :run AND no > :after ORDER BY no LIMIT :limit)

-- name: dead_edit
-- A dead letter gets another task; its number, and so its history and its place in the list, stay.
UPDATE task SET id = :id, host_queue = :host_queue, priority = :priority, url = :url, key = :key, payload = :payload
WHERE seq = :place & 0xfffffffffffff

-- name: dead_last
SELECT ifnull(max(no), 0) FROM dead WHERE run = :run

-- name: dead_matching
-- The dead letters among :numbers that meet every given condition, as [number, run, host queue, step group, place].
-- A :host without a port matches the host on every port.
SELECT json_group_array(json_array(dead.no, dead.run, host_queue.id, host_queue.step_group, (9 - task.priority) << 52 | task.seq))
FROM json_each(:numbers) n CROSS JOIN dead ON dead.no = n.value
CROSS JOIN task ON task.seq = dead.seq
CROSS JOIN host_queue ON host_queue.id = task.host_queue
CROSS JOIN step_group ON step_group.id = host_queue.step_group
CROSS JOIN host ON host.id = host_queue.host
WHERE (:step IS NULL OR step_group.step = :step)
  AND (:partition IS NULL OR step_group.partition = :partition)
  AND (:host IS NULL OR host.name = lower(:host) OR substr(host.name, 1, length(:host) + 1) = lower(:host) || ':')
  AND (:error IS NULL OR instr(dead.error, :error) > 0)
  AND (:before IS NULL OR dead.buried_at < :before)
  AND (:after IS NULL OR dead.buried_at > :after)

-- name: dead_named
-- The numbers of the dead letters with these ids.
SELECT json_group_array(DISTINCT dead.no)
FROM json_each(:ids) i CROSS JOIN task ON task.run = :run AND task.id = unhex(i.value)
CROSS JOIN dead ON dead.seq = task.seq

-- name: dead_read
-- Dead letters with their history, the oldest attempt first.
SELECT json_group_array(json_array(
    dead.no, lower(hex(task.id)), dead.attempts, dead.error, dead.buried_at,
    json_array(
        task.url, step_group.step, task.payload, task.key, step_group.partition,
        task.priority, task.ttl, task.delay, task.depth
    ),
    json((
        SELECT json_group_array(json_array(attempt, name, error, ended_at)) FROM (
            SELECT failure.attempt, worker.name, failure.error, failure.ended_at
            FROM failure JOIN worker ON worker.no = failure.worker
            WHERE failure.seq = dead.seq ORDER BY failure.token
        )
    ))
))
FROM json_each(:numbers) n CROSS JOIN dead ON dead.no = n.value
CROSS JOIN task ON task.seq = dead.seq
CROSS JOIN host_queue ON host_queue.id = task.host_queue
CROSS JOIN step_group ON step_group.id = host_queue.step_group

-- name: dead_remove
DELETE FROM dead WHERE no IN (SELECT value FROM json_each(:numbers))

-- name: dead_revive
-- The time to live of a replayed task starts again.
UPDATE task SET expires_at = :now + ttl
WHERE ttl IS NOT NULL AND seq IN (SELECT value & 0xfffffffffffff FROM json_each(:places))

-- name: dropped_add
INSERT INTO dropped (seq, run, dropped_at)
SELECT dead.seq, dead.run, :now FROM json_each(:numbers) n CROSS JOIN dead ON dead.no = n.value
