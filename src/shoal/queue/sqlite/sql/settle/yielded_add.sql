WITH given (place, items, stored_at) AS (
    VALUES (?, ?, ?)
)
INSERT INTO yielded (seq, items, stored_at)
SELECT place & 0xfffffffffffff, items, stored_at FROM given WHERE place IS NOT NULL
