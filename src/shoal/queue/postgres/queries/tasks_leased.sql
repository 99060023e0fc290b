-- Leased tasks behind the mark $2, a row for each task. A page has rows without a task where none is meant, so that its end is known.
SELECT p.mark, p.worker, p.since, p.attempt, t.id AS task, t.step, t.partition, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay
FROM (
    SELECT row_number() OVER (ORDER BY l.task) AS n, ARRAY[l.task::text] AS mark, l.worker, l.start_at AS since, l.attempt, ARRAY[l.task] AS tasks
    FROM shoal.lease l
    WHERE l.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND l.task > ($2::text[])[1]::bytea
    ORDER BY n LIMIT $3
) p
LEFT JOIN LATERAL (
    SELECT t.*, s.step, s.partition FROM unnest(p.tasks) AS one(id)
    JOIN shoal.task t ON t.id = one.id JOIN shoal.section s ON s.id = t.section
    WHERE ($4::text IS NULL OR s.step = $4) AND ($5::bytea[] IS NULL OR one.id = ANY ($5))
) t ON true
ORDER BY p.n
