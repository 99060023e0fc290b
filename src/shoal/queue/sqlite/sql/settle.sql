-- Outcomes: what ended leases leave behind, and the counters that change with them.

-- name: item_add
WITH given (run, step_group, place, stored_at, data) AS (
    VALUES (?, ?, ?, ?, ?)
)
INSERT INTO item (run, step_group, seq, stored_at, data)
SELECT run, step_group, place & 0xfffffffffffff, stored_at, data FROM given WHERE run IS NOT NULL

-- name: reject_add
WITH given (run, step_group, place, stored_at, data, reason) AS (
    VALUES (?, ?, ?, ?, ?, ?)
)
INSERT INTO reject (run, step_group, seq, stored_at, data, reason)
SELECT run, step_group, place & 0xfffffffffffff, stored_at, data, reason FROM given WHERE run IS NOT NULL

-- name: yielded_add
WITH given (place, items, stored_at) AS (
    VALUES (?, ?, ?)
)
INSERT INTO yielded (seq, items, stored_at)
SELECT place & 0xfffffffffffff, items, stored_at FROM given WHERE place IS NOT NULL

-- name: failure_add
WITH given (place, token, attempt, worker, ended_at, error) AS (
    VALUES (?, ?, ?, ?, ?, ?)
)
INSERT INTO failure (seq, token, attempt, worker, ended_at, error)
SELECT place & 0xfffffffffffff, token, attempt, worker, ended_at, error FROM given WHERE place IS NOT NULL

-- name: count_host_queues
WITH given (host_queue, pending, delayed, leased, completed, dead, expired, dropped, items, rejected) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)
UPDATE host_queue SET
    pending = host_queue.pending + given.pending, delayed = host_queue.delayed + given.delayed, leased = host_queue.leased + given.leased,
    completed = host_queue.completed + given.completed, dead = host_queue.dead + given.dead,
    expired = host_queue.expired + given.expired, dropped = host_queue.dropped + given.dropped,
    items = host_queue.items + given.items, rejected = host_queue.rejected + given.rejected
FROM given WHERE host_queue.id = given.host_queue

-- name: count_step_groups
WITH given (step_group, pending, delayed, leased, completed, dead, expired, dropped, items, rejected) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)
UPDATE step_group SET
    pending = step_group.pending + given.pending, delayed = step_group.delayed + given.delayed, leased = step_group.leased + given.leased,
    completed = step_group.completed + given.completed, dead = step_group.dead + given.dead,
    expired = step_group.expired + given.expired, dropped = step_group.dropped + given.dropped,
    items = step_group.items + given.items, rejected = step_group.rejected + given.rejected
FROM given WHERE step_group.id = given.step_group

-- name: count_workers
WITH given (worker, completed, failed, items) AS (
    VALUES (?, ?, ?, ?)
)
UPDATE worker SET
    completed = worker.completed + given.completed, failed = worker.failed + given.failed,
    items = worker.items + given.items
FROM given WHERE worker.no = given.worker
