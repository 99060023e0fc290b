WITH given (run, worker, lane, place, host, attempt, deadline) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?)
)
INSERT INTO lease (task, run, lane, place, host, attempt, worker, deadline)
SELECT task.id, given.run, given.lane, given.place, given.host, given.attempt, given.worker, given.deadline
FROM given CROSS JOIN task ON task.seq = given.place & 0xfffffffffffff
