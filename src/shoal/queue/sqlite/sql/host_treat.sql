-- A pause is never made shorter; NULL leaves the delay as it is.
WITH given (host, paused_until, delay) AS (
    VALUES (?, ?, ?)
)
UPDATE host SET
    paused_until = max(host.paused_until, ifnull(given.paused_until, 0)),
    delay = ifnull(given.delay, host.delay)
FROM given WHERE host.id = given.host
