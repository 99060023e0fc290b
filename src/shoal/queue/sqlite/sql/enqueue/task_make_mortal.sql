INSERT INTO expiry (run, at, seq)
SELECT run, expires_at, seq FROM task WHERE seq > :last AND expires_at IS NOT NULL
