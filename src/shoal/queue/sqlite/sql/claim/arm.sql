-- Compute when lanes are due and with which priority, from the current state: their first pending task, the leases of
-- their host, and its limits. Every call that changes one of these passes the lanes or hosts that it touched, in the same
-- transaction; so a lane is never out of date.
WITH meant AS (
    SELECT value AS lane FROM json_each(:lanes)
    UNION
    SELECT lane.id FROM json_each(:hosts) CROSS JOIN lane WHERE lane.host = value AND lane.host > 0
),
seen AS (
    SELECT lane.id, lane.host, run.per_host,
        (SELECT min(place) FROM ready WHERE ready.lane = lane.id) AS place,
        (SELECT count(*) FROM lease WHERE lease.host = lane.host AND lease.host > 0) AS live,
        host.last_start, host.paused_until, max(host.last_delay, host.delay, host.slowdown, run.host_delay) AS gap
    FROM meant
    CROSS JOIN lane ON lane.id = meant.lane
    CROSS JOIN run ON run.no = lane.run
    CROSS JOIN host ON host.id = lane.host
),
new AS MATERIALIZED (
    SELECT id, 9 - (place >> 52) AS priority, CASE
        WHEN place IS NULL THEN NULL
        WHEN host = 0 THEN last_start
        WHEN live >= per_host THEN NULL
        ELSE max(paused_until, last_start + gap)
    END AS due
    FROM seen
)
UPDATE lane SET priority = new.priority, due = new.due
FROM new
WHERE lane.id = new.id AND (lane.priority IS NOT new.priority OR lane.due IS NOT new.due)
