-- Host 0 has no gate; its last start only says whose turn it is.
WITH given (host, last_start, host_delay, earlier) AS (
    VALUES (?, ?, ?, ?)
)
UPDATE host SET
    last_start = given.last_start, last_delay = iif(host.id = 0, 0, given.host_delay), earlier = given.earlier
FROM given WHERE host.id = given.host
