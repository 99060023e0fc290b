-- Completed tasks after the mark $2, a position in table done, and before the block $6: a few blocks, because the table has no index. A row for each
-- task; `behind` counts the tasks after it in its row. Rows of other runs are skipped. A page has rows without a task where none
-- matches, so that its end is known. `items` is NULL if a Shoal that did not count them wrote the row.
SELECT p.mark, p.worker, p.ended_at AS since, 0 AS attempt, t.behind, t.id AS task, t.step, t.partition, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay,
       CASE WHEN p.items IS NOT NULL THEN coalesce(p.items[cardinality(p.tasks) - t.behind], 0) END AS items
FROM (
    SELECT row_number() OVER (ORDER BY d.place) AS n, d.*, ARRAY[(d.place::text::point)[0], (d.place::text::point)[1]]::bigint[]::text[] AS mark
    FROM (
        SELECT d.ctid AS place, d.worker, d.ended_at, d.tasks, d.items, sum(cardinality(d.tasks)) OVER (ORDER BY d.ctid) - cardinality(d.tasks) AS before
        FROM shoal.done d
        WHERE d.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1)
          AND d.ctid > format('(%s,%s)', ($2::text[])[1], ($2::text[])[2])::tid AND d.ctid < format('(%s,0)', $6::bigint)::tid
    ) d
    WHERE d.before < $3
) p
LEFT JOIN LATERAL (
    SELECT t.*, s.step, s.partition, cardinality(p.tasks) - one.n AS behind
    FROM unnest(p.tasks) WITH ORDINALITY AS one(id, n)
    CROSS JOIN LATERAL (SELECT * FROM shoal.task WHERE id = one.id OFFSET 0) t
    CROSS JOIN LATERAL (SELECT step, partition FROM shoal.section WHERE id = t.section OFFSET 0) s
    WHERE ($4::text IS NULL OR s.step = $4) AND ($5::bytea[] IS NULL OR one.id = ANY ($5))
) t ON true
ORDER BY p.n, t.behind DESC
