SELECT json_array(no, id, scraper, state, host_delay, per_host, max_attempts, ttl, started_at, reason, dedup, json(dedup_steps))
FROM run WHERE id = :run_id
