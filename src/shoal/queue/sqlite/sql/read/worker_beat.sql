INSERT INTO worker (run, name, state, info, beat_at) VALUES (:run, :worker_id, :state, :info, :now)
ON CONFLICT (run, name) DO UPDATE SET state = :state, info = :info, beat_at = :now
