-- A batch of expired notes; no query returns them any more.
DELETE FROM note WHERE rowid IN (SELECT rowid FROM note WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit)
