-- Duplicates write nothing; of two tasks with the same key, the first one stays.
WITH given (run, now, id, lane, priority, depth, ttl, delay, url, key, payload) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)
INSERT INTO task (run, id, lane, priority, depth, ttl, delay, expires_at, url, key, payload)
SELECT run, id, lane, priority, depth, ttl, delay, now + ttl, url, key, payload
FROM given WHERE run IS NOT NULL
ON CONFLICT (run, id) DO NOTHING
