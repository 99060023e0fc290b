-- Outcomes: what ended leases leave behind, and the counters that change with them.

-- name: item_add
WITH given (run, section, place, stored_at, data) AS (
    VALUES (?, ?, ?, ?, ?)
)
INSERT INTO item (run, section, seq, stored_at, data)
SELECT run, section, place & 0xfffffffffffff, stored_at, data FROM given WHERE run IS NOT NULL

-- name: reject_add
WITH given (run, section, place, stored_at, data, reason) AS (
    VALUES (?, ?, ?, ?, ?, ?)
)
INSERT INTO reject (run, section, seq, stored_at, data, reason)
SELECT run, section, place & 0xfffffffffffff, stored_at, data, reason FROM given WHERE run IS NOT NULL

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

-- name: count_lanes
WITH given (lane, pending, delayed, leased, completed, dead, expired, dropped, items, rejected) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)
UPDATE lane SET
    pending = lane.pending + given.pending, delayed = lane.delayed + given.delayed, leased = lane.leased + given.leased,
    completed = lane.completed + given.completed, dead = lane.dead + given.dead,
    expired = lane.expired + given.expired, dropped = lane.dropped + given.dropped,
    items = lane.items + given.items, rejected = lane.rejected + given.rejected
FROM given WHERE lane.id = given.lane

-- name: count_sections
WITH given (section, pending, delayed, leased, completed, dead, expired, dropped, items, rejected) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)
UPDATE section SET
    pending = section.pending + given.pending, delayed = section.delayed + given.delayed, leased = section.leased + given.leased,
    completed = section.completed + given.completed, dead = section.dead + given.dead,
    expired = section.expired + given.expired, dropped = section.dropped + given.dropped,
    items = section.items + given.items, rejected = section.rejected + given.rejected
FROM given WHERE section.id = given.section

-- name: count_workers
WITH given (worker, completed, failed, items) AS (
    VALUES (?, ?, ?, ?)
)
UPDATE worker SET
    completed = worker.completed + given.completed, failed = worker.failed + given.failed,
    items = worker.items + given.items
FROM given WHERE worker.no = given.worker
