-- The tasks :seqs with their state, as [seq, id, state, worker, since, attempt, items, task], filtered by step and states.
WITH page AS MATERIALIZED (
    SELECT task.* FROM json_each(:seqs) n CROSS JOIN task ON task.seq = n.value
), found AS (
    SELECT
        page.*, section.step, section.partition, worker.name AS worker, yielded.items,
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
    JOIN lane ON lane.id = page.lane JOIN section ON section.id = lane.section
    LEFT JOIN ready ON ready.lane = page.lane AND ready.place = (9 - page.priority) << 52 | page.seq
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
