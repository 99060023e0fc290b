-- :tasks = [[lane, place], ...]
DELETE FROM ready WHERE (lane, place) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:tasks))
