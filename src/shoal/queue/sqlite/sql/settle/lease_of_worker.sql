-- The live leases of a worker in any run, as lease_held.sql returns them. Leases are few and workers rarely die, so all
-- of them are scanned: an index would cost every claim.
SELECT json_group_array(json_array(
    lease.token, lower(hex(lease.task)), run.id, run.no, lane.id, lane.section, lease.place, lease.host,
    lease.attempt, lease.worker, run.max_attempts, run.ttl, lease.start_at
))
FROM lease CROSS JOIN worker ON worker.no = lease.worker AND worker.name = :worker_id
CROSS JOIN lane ON lane.id = lease.lane CROSS JOIN run ON run.no = lease.run
