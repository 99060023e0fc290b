-- Dropped tasks after the mark $2. The limit applies before any join, and each task is then looked up separately, so that
-- a page costs the same however many tasks there are. It has rows without a task where none matches, so that its end is known.
SELECT p.mark, NULL::text AS worker, p.since AS since, 0 AS attempt, t.behind, t.id AS task, t.step, t.partition, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay
FROM (SELECT row_number() OVER () AS n, page.* FROM (
    SELECT ARRAY[d.id::text] AS mark, d.dropped_at AS since, ARRAY[d.task] AS tasks
    FROM shoal.dropped d
    WHERE d.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND d.id > ($2::text[])[1]::bigint
    ORDER BY d.run, d.id LIMIT $3
) page) p
LEFT JOIN LATERAL (
    SELECT t.*, s.step, s.partition, cardinality(p.tasks) - one.n AS behind
    FROM unnest(p.tasks) WITH ORDINALITY AS one(id, n)
    CROSS JOIN LATERAL (SELECT * FROM shoal.task WHERE id = one.id OFFSET 0) t
    CROSS JOIN LATERAL (SELECT step, partition FROM shoal.section WHERE id = t.section OFFSET 0) s
    WHERE ($4::text IS NULL OR s.step = $4) AND ($5::bytea[] IS NULL OR one.id = ANY ($5))
) t ON true
WHERE p.n <= $3
ORDER BY p.n, t.behind DESC
