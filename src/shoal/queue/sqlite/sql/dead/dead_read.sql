-- Dead letters with their history, the oldest attempt first.
SELECT json_group_array(json_array(
    dead.no, lower(hex(task.id)), dead.attempts, dead.error, dead.buried_at,
    json_array(
        task.url, section.step, task.payload, task.key, section.partition,
        task.priority, task.ttl, task.delay, task.depth
    ),
    json((
        SELECT json_group_array(json_array(attempt, name, error, ended_at)) FROM (
            SELECT failure.attempt, worker.name, failure.error, failure.ended_at
            FROM failure JOIN worker ON worker.no = failure.worker
            WHERE failure.seq = dead.seq ORDER BY failure.token
        )
    ))
))
FROM json_each(:numbers) n CROSS JOIN dead ON dead.no = n.value
CROSS JOIN task ON task.seq = dead.seq
CROSS JOIN lane ON lane.id = task.lane
CROSS JOIN section ON section.id = lane.section
