-- :items = [[run, section, place, data], ...]
INSERT INTO item (run, section, seq, stored_at, data)
SELECT value ->> 0, value ->> 1, (value ->> 2) & 0xfffffffffffff, :now, value ->> 3 FROM json_each(:items)
