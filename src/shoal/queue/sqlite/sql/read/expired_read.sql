-- A page of expired tasks, as [number, id, time, task].
SELECT json_group_array(json_array(
    page.no, lower(hex(task.id)), page.expired_at,
    json_array(
        task.url, section.step, task.payload, task.key, section.partition,
        task.priority, task.ttl, task.delay, task.depth
    )
))
FROM (SELECT * FROM expired WHERE run = :run AND no > :after ORDER BY no LIMIT :limit) page
CROSS JOIN task ON task.seq = page.seq
CROSS JOIN lane ON lane.id = task.lane
CROSS JOIN section ON section.id = lane.section
