-- The number of a worker in a run, which is made if need be.
INSERT INTO worker (run, name) VALUES (:run, :worker_id)
ON CONFLICT (run, name) DO UPDATE SET name = name
RETURNING no
