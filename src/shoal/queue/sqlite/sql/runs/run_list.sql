-- The newest first; runs with the same start time in the order in which they were started.
SELECT json_group_array(json_array(no, id, scraper, state, host_delay, per_host, max_attempts, ttl, started_at, reason, dedup, json(dedup_steps)))
FROM (SELECT * FROM run ORDER BY started_at DESC, no DESC)
