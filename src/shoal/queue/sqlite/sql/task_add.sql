-- Duplicates write nothing; of two tasks with one key, the first stays: hence the CROSS JOIN, which keeps the order.
-- :tasks = [[lane's position in :lanes, id, priority, depth, ttl, delay, url, key, payload], ...].
WITH place AS MATERIALIZED (SELECT key AS position, value AS lane FROM json_each(:lanes)),
given AS (
    SELECT place.lane, t.value AS row, min(ifnull(t.value ->> 4, :ttl), ifnull(:ttl, t.value ->> 4)) AS ttl
    FROM json_each(:tasks) t CROSS JOIN place ON place.position = t.value ->> 0
)
INSERT INTO task (run, id, lane, priority, depth, ttl, delay, expires_at, url, key, payload)
SELECT :run, unhex(row ->> 1), lane, row ->> 2, row ->> 3, ttl, row ->> 5, :now + ttl, row ->> 6, row ->> 7, row ->> 8
FROM given WHERE true
ON CONFLICT (run, id) DO NOTHING
