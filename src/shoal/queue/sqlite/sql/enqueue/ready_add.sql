WITH given (lane, place, attempt) AS (
    VALUES (?, ?, ?)
)
INSERT INTO ready (lane, place, attempt) SELECT lane, place, attempt FROM given WHERE lane IS NOT NULL
