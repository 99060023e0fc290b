WITH given (run, section, place, stored_at, data, reason) AS (
    VALUES (?, ?, ?, ?, ?, ?)
)
INSERT INTO reject (run, section, seq, stored_at, data, reason)
SELECT run, section, place & 0xfffffffffffff, stored_at, data, reason FROM given WHERE run IS NOT NULL
