INSERT INTO run (id, scraper, host_delay, per_host, max_attempts, ttl, started_at)
VALUES (:run_id, :scraper, :host_delay, :per_host, :max_attempts, :ttl, :now)
ON CONFLICT (id) DO NOTHING
