-- Set when lanes are due and with which priority, from what is true now: their first pending task, the leases of their
-- host, and its gate. Whoever changes one of these names the lanes or hosts that it touched, in the same transaction;
-- so a lane is never wrong.
UPDATE lane SET priority = 9 - (new.place >> 52), due = new.due
FROM (
    SELECT id, place, CASE
        WHEN place IS NULL THEN NULL
        WHEN host = 0 THEN last_start
        WHEN (SELECT count(*) FROM lease WHERE lease.host = touched.host AND lease.host > 0) >= per_host THEN NULL
        ELSE max(paused_until, last_start + max(last_delay, delay, host_delay))
    END AS due
    FROM (
        SELECT lane.id, lane.host, run.per_host, run.host_delay,
            host.last_start, host.last_delay, host.delay, host.paused_until,
            (SELECT min(ready.place) FROM ready WHERE ready.lane = lane.id) AS place
        FROM (
            SELECT value AS id FROM json_each(:lanes)
            UNION
            SELECT lane.id FROM json_each(:hosts) CROSS JOIN lane WHERE lane.host = value AND lane.host > 0
        ) meant
        CROSS JOIN lane ON lane.id = meant.id
        CROSS JOIN run ON run.no = lane.run
        CROSS JOIN host ON host.id = lane.host
    ) touched
) new
WHERE lane.id = new.id AND (lane.priority IS NOT 9 - (new.place >> 52) OR lane.due IS NOT new.due)
