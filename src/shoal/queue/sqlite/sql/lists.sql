-- Lists that are read page by page: items, rejects, expired tasks, and tasks by state.

-- name: item_read
-- A page of items after :after, and the last number read. A page ends early when it holds too many bytes.
-- An item of a download belongs to the page that asked for it, unless a step was run on the file.
SELECT json_array(
    max(page.id),
    json_group_array(json_array(
        page.id, lower(hex(task.id)),
        CASE WHEN substr(task.payload, 1, 13) = '{"$download":' AND json_extract(task.payload, '$."$download".runs_step') IS NULL
            THEN coalesce(json_extract(task.payload, '$."$download".origin'), task.url) ELSE task.url END,
        step_group.step, page.data, page.stored_at
    ))
        FILTER (WHERE :step IS NULL OR step_group.step = :step)
)
FROM (
    SELECT *, sum(octet_length(data)) OVER (ORDER BY id) - octet_length(data) AS before FROM (
        SELECT * FROM item WHERE run = :run AND id > :after ORDER BY id LIMIT :limit
    )
) page
CROSS JOIN step_group ON step_group.id = page.step_group
CROSS JOIN task ON task.seq = page.seq
WHERE page.before < :bytes

-- name: reject_read
-- A page of rejects after :after, and the last number read. A page ends early when it holds too many bytes.
-- An item of a download belongs to the page that asked for it, unless a step was run on the file.
SELECT json_array(
    max(page.id),
    json_group_array(json_array(
        page.id, lower(hex(task.id)),
        CASE WHEN substr(task.payload, 1, 13) = '{"$download":' AND json_extract(task.payload, '$."$download".runs_step') IS NULL
            THEN coalesce(json_extract(task.payload, '$."$download".origin'), task.url) ELSE task.url END,
        step_group.step, page.data, page.stored_at, page.reason
    )) FILTER (WHERE :step IS NULL OR step_group.step = :step)
)
FROM (
    SELECT *, sum(octet_length(data)) OVER (ORDER BY id) - octet_length(data) AS before FROM (
        SELECT * FROM reject WHERE run = :run AND id > :after ORDER BY id LIMIT :limit
    )
) page
CROSS JOIN step_group ON step_group.id = page.step_group
CROSS JOIN task ON task.seq = page.seq
WHERE page.before < :bytes

-- name: expired_read
-- A page of expired tasks, as [number, id, time, task].
SELECT json_group_array(json_array(
    page.no, lower(hex(task.id)), page.expired_at,
    json_array(
        task.url, step_group.step, task.payload, task.key, step_group.partition,
        task.priority, task.ttl, task.delay, task.depth
    )
))
FROM (SELECT * FROM expired WHERE run = :run AND no > :after ORDER BY no LIMIT :limit) page
CROSS JOIN task ON task.seq = page.seq
CROSS JOIN host_queue ON host_queue.id = task.host_queue
CROSS JOIN step_group ON step_group.id = host_queue.step_group

-- name: task_after
-- A page of all tasks of a run after the id :after, as [id, seq].
SELECT json_group_array(json_array(lower(hex(id)), seq))
FROM (SELECT id, seq FROM task WHERE run = :run AND id > unhex(:after) ORDER BY id LIMIT :limit)

-- name: task_after_dead
-- A page of dead tasks after a number, as [number, seq].
SELECT json_group_array(json_array(no, seq)) FROM (
    SELECT no, seq FROM dead WHERE run = :run AND no > :after ORDER BY no LIMIT :limit
)

-- name: task_after_delayed
-- A page of delayed tasks after one that is due at :first, as [due, seq, seq].
SELECT json_group_array(json_array(due, seq, seq)) FROM (
    SELECT due, seq FROM delayed WHERE run = :run AND (due, seq) > (:first, :after) ORDER BY due, seq LIMIT :limit
)

-- name: task_after_dropped
-- A page of dropped tasks after a seq, as [seq, seq].
SELECT json_group_array(json_array(seq, seq)) FROM (
    SELECT seq FROM dropped WHERE run = :run AND seq > :after ORDER BY seq LIMIT :limit
)

-- name: task_after_expired
-- A page of expired tasks after a number, as [number, seq].
SELECT json_group_array(json_array(no, seq)) FROM (
    SELECT no, seq FROM expired WHERE run = :run AND no > :after ORDER BY no LIMIT :limit
)

-- name: task_after_leased
-- A page of leased tasks after a token, as [token, seq]. Leases of other runs are skipped.
SELECT json_group_array(json_array(token, place & 0xfffffffffffff)) FROM (
    SELECT token, place FROM lease WHERE run = :run AND token > :after ORDER BY token LIMIT :limit
)

-- name: task_after_pending
-- A page of pending tasks after a place in a host queue, as [host queue, place, seq]. Empty host queues and those of other runs are skipped.
SELECT json_group_array(json_array(host_queue, place, place & 0xfffffffffffff)) FROM (
    SELECT ready.host_queue, ready.place
    FROM host_queue CROSS JOIN ready ON ready.host_queue = host_queue.id AND ready.place > iif(host_queue.id = :first, :after, -1)
    WHERE host_queue.run = :run AND host_queue.id >= :first AND host_queue.pending > 0
      AND (:step IS NULL OR host_queue.step_group IN (SELECT id FROM step_group WHERE run = :run AND step = :step))
    ORDER BY host_queue.id, ready.place LIMIT :limit
)

-- name: task_named
-- The tasks of a run with these ids, as [id, seq].
SELECT json_group_array(json_array(lower(hex(id)), seq))
FROM (SELECT id, seq FROM task WHERE run = :run AND id IN (SELECT unhex(value) FROM json_each(:ids)) ORDER BY id)

-- name: task_read
-- The tasks :seqs with their state, as [seq, id, state, worker, since, attempt, items, task], filtered by step and states.
WITH page AS MATERIALIZED (
    SELECT task.* FROM json_each(:seqs) n CROSS JOIN task ON task.seq = n.value
), found AS (
    SELECT
        page.*, step_group.step, step_group.partition, worker.name AS worker, yielded.items,
        coalesce(lease.start_at, dead.buried_at, expired.expired_at, dropped.dropped_at, yielded.stored_at) AS since,
        coalesce(ready.attempt, delayed.attempt, lease.attempt, dead.attempts, 0) AS attempt,
        CASE
            WHEN ready.place IS NOT NULL THEN 'pending'
            WHEN delayed.seq IS NOT NULL THEN 'delayed'
            WHEN lease.token IS NOT NULL THEN 'leased'
            WHEN dead.seq IS NOT NULL THEN 'dead'
            WHEN expired.seq IS NOT NULL THEN 'expired'
            WHEN dropped.seq IS NOT NULL THEN 'dropped'
            ELSE 'completed'
        END AS state
    FROM page
    JOIN host_queue ON host_queue.id = page.host_queue JOIN step_group ON step_group.id = host_queue.step_group
    LEFT JOIN ready ON ready.host_queue = page.host_queue AND ready.place = (9 - page.priority) << 52 | page.seq
    LEFT JOIN delayed ON delayed.seq = page.seq
    LEFT JOIN lease ON lease.run = page.run AND lease.task = page.id
    LEFT JOIN worker ON worker.no = lease.worker
    LEFT JOIN dead ON dead.seq = page.seq
    LEFT JOIN expired ON expired.seq = page.seq
    LEFT JOIN dropped ON dropped.seq = page.seq
    LEFT JOIN yielded ON yielded.seq = page.seq
)
SELECT json_group_array(json_array(
    seq, lower(hex(id)), state, worker, since, attempt, CASE state WHEN 'completed' THEN coalesce(items, 0) END,
    json_array(url, step, payload, key, partition, priority, ttl, delay, depth)
))
FROM found
WHERE (:step IS NULL OR step = :step) AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
