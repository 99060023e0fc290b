-- :dead = [[run, place, attempts, error], ...]
INSERT INTO dead (run, seq, attempts, buried_at, error)
SELECT value ->> 0, (value ->> 1) & 0xfffffffffffff, value ->> 2, :now, value ->> 3 FROM json_each(:dead)
