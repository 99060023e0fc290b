WITH given (run, place, attempts, buried_at, error) AS (
    VALUES (?, ?, ?, ?, ?)
)
INSERT INTO dead (run, seq, attempts, buried_at, error)
SELECT run, place & 0xfffffffffffff, attempts, buried_at, error FROM given WHERE run IS NOT NULL
