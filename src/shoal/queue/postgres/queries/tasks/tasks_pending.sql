-- Pending tasks after the mark $2, a row for each task; `behind` counts the tasks after it in its bundle. Bundles of other runs and steps are skipped. A page is
-- the bundles with the first $3 tasks. The limit applies before any join, and each task is then looked up separately, so that a page
-- costs the same however many tasks there are. It has rows without a task where none matches, so that its end is known.
SELECT p.mark, NULL::text AS worker, NULL::timestamptz AS since, p.attempt AS attempt, t.behind, t.id AS task, t.step, t.partition, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay
FROM (
    SELECT *, sum(cardinality(tasks)) OVER (ORDER BY n) - cardinality(tasks) AS before
    FROM (SELECT row_number() OVER () AS n, page.* FROM (
        SELECT ARRAY[b.host, b.section, b.shard, b.priority, b.seq]::text[] AS mark, b.attempt, b.tasks
        FROM shoal.bundle b
        WHERE b.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1)
          AND (b.host, b.section, b.shard, b.priority, b.seq)
            > (($2::text[])[1]::bigint, ($2::text[])[2]::bigint, ($2::text[])[3]::bigint, ($2::text[])[4]::bigint, ($2::text[])[5]::bigint)
          AND ($4::text IS NULL OR b.section = ANY (ARRAY(SELECT s.id FROM shoal.section s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.step = $4)))
        ORDER BY b.host, b.section, b.shard, b.priority, b.seq LIMIT $3
    ) page) numbered
) p
LEFT JOIN LATERAL (
    SELECT t.*, s.step, s.partition, cardinality(p.tasks) - one.n AS behind
    FROM unnest(p.tasks) WITH ORDINALITY AS one(id, n)
    CROSS JOIN LATERAL (SELECT * FROM shoal.task WHERE id = one.id OFFSET 0) t
    CROSS JOIN LATERAL (SELECT step, partition FROM shoal.section WHERE id = t.section OFFSET 0) s
    WHERE ($4::text IS NULL OR s.step = $4) AND ($5::bytea[] IS NULL OR one.id = ANY ($5))
) t ON true
WHERE p.before < $3
ORDER BY p.n, t.behind DESC
