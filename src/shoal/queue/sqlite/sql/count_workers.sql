-- :changes = [[worker, completed, failed, items], ...]
UPDATE worker SET
    completed = completed + (c.value ->> 1), failed = failed + (c.value ->> 2), items = items + (c.value ->> 3)
FROM json_each(:changes) c WHERE worker.no = c.value ->> 0
