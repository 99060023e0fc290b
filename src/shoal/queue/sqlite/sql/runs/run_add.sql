INSERT INTO run (id, scraper, host_delay, per_host, max_attempts, ttl, dedup, dedup_steps, started_at)
VALUES (:run_id, :scraper, :host_delay, :per_host, :max_attempts, :ttl, :dedup, :dedup_steps, :now)
ON CONFLICT (id) DO NOTHING
