-- Tasks of a run with where they are, as [id, state, worker, since, attempt, items, task], and the last id that was looked at: those
-- with the ids asked for, or a page of all behind :after.
WITH page AS MATERIALIZED (
    SELECT * FROM (SELECT * FROM task WHERE :ids IS NULL AND run = :run AND id > unhex(:after) ORDER BY id LIMIT :limit)
    UNION ALL
    SELECT * FROM task WHERE run = :run AND id IN (SELECT unhex(value) FROM json_each(:ids))
), yield AS (
    SELECT seq, count(*) AS items, max(stored_at) AS at FROM item
    WHERE :with_items AND run = :run AND seq IN (SELECT seq FROM page) GROUP BY seq
), found AS (
    SELECT
        page.*, section.step, section.partition, worker.name AS worker, yield.items,
        coalesce(lease.start_at, dead.buried_at, expired.expired_at, dropped.dropped_at, yield.at) AS since,
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
    LEFT JOIN yield ON yield.seq = page.seq
)
SELECT json_array(
    nullif(lower(hex(max(id))), ''),
    json_group_array(json_array(
        lower(hex(id)), state, worker, since, attempt, coalesce(items, 0),
        json_array(url, step, payload, key, partition, priority, ttl, delay, depth)
    )) FILTER (
        WHERE (:step IS NULL OR step = :step) AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
    )
)
FROM found
