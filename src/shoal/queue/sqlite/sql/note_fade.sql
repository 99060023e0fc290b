-- Some of the notes that have expired; nobody has seen them since.
DELETE FROM note WHERE rowid IN (SELECT rowid FROM note WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit)
