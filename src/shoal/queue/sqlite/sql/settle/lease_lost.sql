-- The leases whose deadline has passed, as lease_held.sql returns them.
SELECT json_group_array(json_array(
    lease.token, lower(hex(lease.task)), run.id, run.no, lane.id, lane.section, lease.place, lease.host,
    lease.attempt, lease.worker, run.max_attempts, run.ttl, lease.start_at
))
FROM (SELECT token FROM lease WHERE deadline <= :now ORDER BY deadline LIMIT :limit) lost
CROSS JOIN lease ON lease.token = lost.token
CROSS JOIN lane ON lane.id = lease.lane CROSS JOIN run ON run.no = lease.run
