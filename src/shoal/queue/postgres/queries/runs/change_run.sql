UPDATE shoal.run SET host_delay = $2, per_host = $3, max_attempts = $4 WHERE run_id = $1
