UPDATE section SET pending = section.pending + fresh.pending, delayed = section.delayed + fresh.delayed
FROM (
    SELECT lane.section, count(*) FILTER (WHERE task.delay IS NULL) AS pending, count(task.delay) AS delayed
    FROM task CROSS JOIN lane WHERE task.seq > :last AND lane.id = task.lane GROUP BY lane.section
) fresh
WHERE section.id = fresh.section
