-- The leases of this claim, as the worker gets them.
SELECT json_group_array(json_array(
    lease.token, lower(hex(lease.task)), lease.attempt, lease.deadline,
    json_array(
        task.url, section.step, task.payload, task.key, section.partition,
        task.priority, task.ttl, task.delay, task.depth
    )
))
FROM lease CROSS JOIN task ON task.seq = lease.place & 0xfffffffffffff
CROSS JOIN lane ON lane.id = lease.lane CROSS JOIN section ON section.id = lane.section
WHERE lease.token > :last
