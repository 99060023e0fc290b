-- :changes = [[lane, pending, delayed, leased, completed, dead, expired, dropped, items, rejected], ...]
UPDATE lane SET
    pending = pending + (c.value ->> 1), delayed = delayed + (c.value ->> 2), leased = leased + (c.value ->> 3),
    completed = completed + (c.value ->> 4), dead = dead + (c.value ->> 5), expired = expired + (c.value ->> 6),
    dropped = dropped + (c.value ->> 7), items = items + (c.value ->> 8), rejected = rejected + (c.value ->> 9)
FROM json_each(:changes) c WHERE lane.id = c.value ->> 0
