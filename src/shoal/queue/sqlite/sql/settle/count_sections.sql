WITH given (section, pending, delayed, leased, completed, dead, expired, dropped, items, rejected) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)
UPDATE section SET
    pending = section.pending + given.pending, delayed = section.delayed + given.delayed, leased = section.leased + given.leased,
    completed = section.completed + given.completed, dead = section.dead + given.dead,
    expired = section.expired + given.expired, dropped = section.dropped + given.dropped,
    items = section.items + given.items, rejected = section.rejected + given.rejected
FROM given WHERE section.id = given.section
