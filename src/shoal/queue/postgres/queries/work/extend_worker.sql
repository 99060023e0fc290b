-- The table holds live leases only and a worker is seldom silent, so it is scanned: see 65_abandon.sql.
-- A lease that another call has locked is being settled, extended or taken back; waiting for it could deadlock.
WITH held AS (
    SELECT task FROM shoal.lease WHERE worker = $1 AND deadline > clock_timestamp() FOR UPDATE SKIP LOCKED
), extended AS (
    UPDATE shoal.lease l SET deadline = clock_timestamp() + $2::interval FROM held WHERE l.task = held.task RETURNING 1
)
SELECT count(*) FROM extended
