-- :tasks = [[run, lane, place, attempts so far, due], ...]
INSERT INTO delayed (seq, run, lane, place, attempt, due)
SELECT (value ->> 2) & 0xfffffffffffff, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
FROM json_each(:tasks)
