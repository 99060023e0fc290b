WITH given (lane, pending, delayed, leased, completed, dead, expired, dropped, items, rejected) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)
UPDATE lane SET
    pending = lane.pending + given.pending, delayed = lane.delayed + given.delayed, leased = lane.leased + given.leased,
    completed = lane.completed + given.completed, dead = lane.dead + given.dead,
    expired = lane.expired + given.expired, dropped = lane.dropped + given.dropped,
    items = lane.items + given.items, rejected = lane.rejected + given.rejected
FROM given WHERE lane.id = given.lane
