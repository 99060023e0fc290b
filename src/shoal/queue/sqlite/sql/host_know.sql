-- The number of a host, which is made if need be.
INSERT INTO host (name) VALUES (:name) ON CONFLICT (name) DO UPDATE SET name = name RETURNING id
