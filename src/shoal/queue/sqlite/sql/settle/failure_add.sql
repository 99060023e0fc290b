WITH given (place, token, attempt, worker, ended_at, error) AS (
    VALUES (?, ?, ?, ?, ?, ?)
)
INSERT INTO failure (seq, token, attempt, worker, ended_at, error)
SELECT place & 0xfffffffffffff, token, attempt, worker, ended_at, error FROM given WHERE place IS NOT NULL
