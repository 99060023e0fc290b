-- The number of a worker in a run, which is created if necessary.
INSERT INTO worker (run, name) VALUES (:run, :worker_id)
ON CONFLICT (run, name) DO UPDATE SET name = name
RETURNING no
