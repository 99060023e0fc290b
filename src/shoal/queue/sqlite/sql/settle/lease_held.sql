-- The live leases among :tokens, with what is needed to end them.
SELECT json_group_array(json_array(
    lease.token, lower(hex(lease.task)), run.id, run.no, lane.id, lane.section, lease.place, lease.host,
    lease.attempt, lease.worker, run.max_attempts, run.ttl, lease.start_at
))
FROM json_each(:tokens) t CROSS JOIN lease ON lease.token = t.value
CROSS JOIN lane ON lane.id = lease.lane CROSS JOIN run ON run.no = lease.run
