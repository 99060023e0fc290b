-- The number of a host, which is created if necessary.
INSERT INTO host (name) VALUES (:name) ON CONFLICT (name) DO UPDATE SET name = name RETURNING id
