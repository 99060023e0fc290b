-- Create a run unless one with this id exists.
INSERT INTO shoal.run (run_id, scraper, host_delay, per_host, max_attempts, ttl, dedup, dedup_steps)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (run_id) DO NOTHING
