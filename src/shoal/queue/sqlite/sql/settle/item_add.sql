WITH given (run, section, place, stored_at, data) AS (
    VALUES (?, ?, ?, ?, ?)
)
INSERT INTO item (run, section, seq, stored_at, data)
SELECT run, section, place & 0xfffffffffffff, stored_at, data FROM given WHERE run IS NOT NULL
