-- :rejects = [[run, section, place, data, reason], ...]
INSERT INTO reject (run, section, seq, stored_at, data, reason)
SELECT value ->> 0, value ->> 1, (value ->> 2) & 0xfffffffffffff, :now, value ->> 3, value ->> 4
FROM json_each(:rejects)
