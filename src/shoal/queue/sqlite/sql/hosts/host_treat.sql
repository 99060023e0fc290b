-- A pause is never shortened; NULL leaves the slowdown unchanged.
WITH given (host, paused_until, slowdown) AS (
    VALUES (?, ?, ?)
)
UPDATE host SET
    paused_until = max(host.paused_until, ifnull(given.paused_until, 0)),
    slowdown = ifnull(given.slowdown, host.slowdown)
FROM given WHERE host.id = given.host
