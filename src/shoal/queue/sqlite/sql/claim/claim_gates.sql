-- Host 0 has no rate limit; its last start only determines which lane is next.
WITH given (host, last_start, host_delay, earlier) AS (
    VALUES (?, ?, ?, ?)
)
UPDATE host SET
    last_start = given.last_start, last_delay = iif(host.id = 0, 0, given.host_delay), earlier = given.earlier
FROM given WHERE host.id = given.host
