-- Dead tasks behind the mark $2, a row for each task. A page has rows without a task where none is meant, so that its end is known.
SELECT p.mark, NULL::text AS worker, p.since, p.attempt, t.id AS task, t.step, t.partition, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay
FROM (
    SELECT row_number() OVER (ORDER BY d.id) AS n, ARRAY[d.id::text] AS mark, d.buried_at AS since, d.attempts AS attempt, ARRAY[d.task] AS tasks
    FROM shoal.dead d
    WHERE d.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND d.id > ($2::text[])[1]::bigint
    ORDER BY n LIMIT $3
) p
LEFT JOIN LATERAL (
    SELECT t.*, s.step, s.partition FROM unnest(p.tasks) AS one(id)
    JOIN shoal.task t ON t.id = one.id JOIN shoal.section s ON s.id = t.section
    WHERE ($4::text IS NULL OR s.step = $4) AND ($5::bytea[] IS NULL OR one.id = ANY ($5))
) t ON true
ORDER BY p.n
