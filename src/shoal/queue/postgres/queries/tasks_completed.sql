-- Completed tasks behind the mark $2, a place in table done, and before the place $6: a few blocks, for the table has no index. Each page looks through the items of
-- the run once, so it is large. A page has rows without a task where none is meant, so that its end is known.
WITH run AS (
    SELECT r.id FROM shoal.run r WHERE r.run_id = $1
), page AS MATERIALIZED (
    SELECT d.* FROM (
        SELECT d.ctid AS place, d.worker, d.ended_at, d.tasks, sum(cardinality(d.tasks)) OVER (ORDER BY d.ctid) - cardinality(d.tasks) AS before
        FROM shoal.done d
        WHERE d.run = (SELECT id FROM run) AND d.ctid > ($2::text[])[1]::tid AND d.ctid < $6::text::tid
    ) d
    WHERE d.before < $3
), yield AS (
    SELECT i.task, count(*) AS items FROM shoal.item i
    WHERE i.run = (SELECT id FROM run) AND i.task IN (SELECT one.id FROM page p CROSS JOIN LATERAL unnest(p.tasks) AS one(id) WHERE $5::bytea[] IS NULL OR one.id = ANY ($5))
    GROUP BY i.task
)
SELECT ARRAY[p.place::text] AS mark, p.worker, p.ended_at AS since, 0 AS attempt, t.id AS task, t.step, t.partition, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay, coalesce(y.items, 0) AS items
FROM page p
LEFT JOIN LATERAL (
    SELECT t.*, s.step, s.partition FROM unnest(p.tasks) AS one(id)
    JOIN shoal.task t ON t.id = one.id JOIN shoal.section s ON s.id = t.section
    WHERE ($4::text IS NULL OR s.step = $4) AND ($5::bytea[] IS NULL OR one.id = ANY ($5))
) t ON true
LEFT JOIN yield y ON y.task = t.id
ORDER BY p.place
