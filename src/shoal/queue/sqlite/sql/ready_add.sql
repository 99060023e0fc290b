-- :tasks = [[lane, place, attempts so far], ...]
INSERT INTO ready (lane, place, attempt)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:tasks)
