-- :picked = [[lane, place, host, attempt, deadline], ...]
INSERT INTO lease (task, run, lane, place, host, attempt, worker, deadline)
SELECT task.id, :run, p.value ->> 0, p.value ->> 1, p.value ->> 2, p.value ->> 3, :worker, p.value ->> 4
FROM json_each(:picked) p CROSS JOIN task WHERE task.seq = (p.value ->> 1) & 0xfffffffffffff
