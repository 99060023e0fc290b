-- :failures = [[place, token, attempt, worker, error], ...]
INSERT INTO failure (seq, token, attempt, worker, ended_at, error)
SELECT (value ->> 0) & 0xfffffffffffff, value ->> 1, value ->> 2, value ->> 3, :now, value ->> 4
FROM json_each(:failures)
