DELETE FROM expiry WHERE (run, at, seq) IN (
    SELECT run, at, seq FROM expiry WHERE run = :run AND at <= :now ORDER BY at, seq LIMIT :limit
)
