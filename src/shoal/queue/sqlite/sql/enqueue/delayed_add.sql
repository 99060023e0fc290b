WITH given (run, lane, place, attempt, due) AS (
    VALUES (?, ?, ?, ?, ?)
)
INSERT INTO delayed (seq, run, lane, place, attempt, due)
SELECT place & 0xfffffffffffff, run, lane, place, attempt, due FROM given WHERE run IS NOT NULL
