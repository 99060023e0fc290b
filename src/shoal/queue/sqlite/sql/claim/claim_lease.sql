WITH given (run, worker, lane, place, host, attempt, start_at, deadline) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
)
INSERT INTO lease (task, run, lane, place, host, attempt, worker, start_at, deadline)
SELECT task.id, given.run, given.lane, given.place, given.host, given.attempt, given.worker, given.start_at, given.deadline
FROM given CROSS JOIN task ON task.seq = given.place & 0xfffffffffffff
