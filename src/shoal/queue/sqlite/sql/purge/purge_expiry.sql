DELETE FROM expiry WHERE (run, at, seq) IN (SELECT run, at, seq FROM expiry WHERE run = :run LIMIT :limit)
