-- Hosts: their rate limits, their last starts, and the counts of their tasks.

-- name: host_number
-- The number of a host, which is created if necessary.
INSERT INTO host (name) VALUES (:name) ON CONFLICT (name) DO UPDATE SET name = name RETURNING id

-- name: host_read
-- A page of hosts after the name :after, and the last name read. Without a run, the counts are of all
-- runs, less the tasks that wait in runs which have ended, and a host without tasks is listed while it has a pause or a delay of its own.
SELECT json_array(
    max(name),
    json_group_array(json_array(
        name, delay, paused_until, json_array(pending, delayed, leased, completed, dead, expired, dropped, items, rejected)
    )) FILTER (WHERE tasks > 0 OR :run IS NULL AND (delay > 0 OR paused_until > :now))
)
FROM (
    SELECT page.name, max(page.delay, page.slowdown) AS delay, page.paused_until,
        ifnull(sum(host_queue.pending) FILTER (WHERE :run IS NOT NULL OR run.state NOT IN ('partial', 'cancelled')), 0) AS pending,
        ifnull(sum(host_queue.delayed) FILTER (WHERE :run IS NOT NULL OR run.state NOT IN ('partial', 'cancelled')), 0) AS delayed,
        ifnull(sum(host_queue.leased), 0) AS leased, ifnull(sum(host_queue.completed), 0) AS completed,
        ifnull(sum(host_queue.dead), 0) AS dead, ifnull(sum(host_queue.expired), 0) AS expired,
        ifnull(sum(host_queue.dropped), 0) AS dropped, ifnull(sum(host_queue.items), 0) AS items,
        ifnull(sum(host_queue.rejected), 0) AS rejected,
        ifnull(sum(host_queue.pending + host_queue.delayed + host_queue.leased + host_queue.completed
            + host_queue.dead + host_queue.expired + host_queue.dropped), 0) AS tasks
    FROM (SELECT * FROM host WHERE name > :after ORDER BY name LIMIT :limit) page
    LEFT JOIN host_queue ON host_queue.host = page.id
        AND iif(:run IS NULL, host_queue.run IN (SELECT no FROM run), host_queue.run = :run)
    LEFT JOIN run ON run.no = host_queue.run
    GROUP BY page.name
)

-- name: host_shorten
-- The hosts of a run keep the gap of their last start, which may be of another run. One that equals the run's old delay becomes
-- the new one, or a run that gets faster would wait for its old delay once more.
UPDATE host SET last_gap = :new
WHERE last_gap = :old AND last_gap > :new AND id IN (SELECT host FROM host_queue WHERE run = :run)

-- name: host_slow
-- Set by an operator: it also ends the slowdown caused by errors of the host.
UPDATE host SET delay = :delay, slowdown = 0 WHERE id = :host

-- name: host_starts
SELECT json_group_array(json_array(id, last_at, last_gap, earlier))
FROM host WHERE id IN (SELECT value FROM json_each(:hosts))

-- name: host_adjust
-- A pause is never shortened; NULL leaves the slowdown unchanged.
WITH given (host, paused_until, slowdown) AS (
    VALUES (?, ?, ?)
)
UPDATE host SET
    paused_until = max(host.paused_until, ifnull(given.paused_until, 0)),
    slowdown = ifnull(given.slowdown, host.slowdown)
FROM given WHERE host.id = given.host

-- name: host_unpause
UPDATE host SET paused_until = 0 WHERE id = :host

-- name: host_take_turn
-- Such a start is never given back, so no earlier one counts again.
UPDATE host SET last_at = max(:now, last_at + max(:gap, last_gap, delay, slowdown)), last_gap = :gap, earlier = '[]'
WHERE id = :host
RETURNING last_at
