WITH given (worker, completed, failed, items) AS (
    VALUES (?, ?, ?, ?)
)
UPDATE worker SET
    completed = worker.completed + given.completed, failed = worker.failed + given.failed,
    items = worker.items + given.items
FROM given WHERE worker.no = given.worker
