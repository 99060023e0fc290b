-- Tasks by state, page by page.

-- name: entered
-- The ids among $2 that belong to tasks of a run.
SELECT t.id FROM shoal.task t
WHERE t.id = ANY ($2::bytea[]) AND t.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1)

-- name: tasks
-- The tasks of one state after the mark $2, a row for each; the query `page_STATE` takes the place of `state_page`. A row of
-- that page has a mark and one or many tasks; `behind` counts the tasks after one in its row. A page ends with the row of its
-- task $3. The limit applies before any join, and each task is then looked up separately, so that a page costs the same however
-- many tasks there are. It has rows without a task where none matches, so that its end is known.
SELECT p.mark, p.worker, p.since, p.attempt, t.behind, t.id AS task, t.step, t.partition, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay,
       coalesce(p.items[cardinality(p.tasks) - t.behind], 0) AS items
FROM (
    SELECT *, sum(cardinality(tasks)) OVER (ORDER BY n) - cardinality(tasks) AS before
    FROM (SELECT row_number() OVER () AS n, page.* FROM (
        state_page
    ) page) numbered
) p
LEFT JOIN LATERAL (
    SELECT t.*, s.step, s.partition, cardinality(p.tasks) - one.n AS behind
    FROM unnest(p.tasks) WITH ORDINALITY AS one(id, n)
    CROSS JOIN LATERAL (SELECT * FROM shoal.task WHERE id = one.id OFFSET 0) t
    CROSS JOIN LATERAL (SELECT step, partition FROM shoal.step_group WHERE id = t.step_group OFFSET 0) s
    WHERE ($4::text IS NULL OR s.step = $4) AND ($5::bytea[] IS NULL OR one.id = ANY ($5))
) t ON true
WHERE p.before < $3
ORDER BY p.n, t.behind DESC

-- name: page_completed
-- Before the block $6: a few blocks, because table done has no index. Rows of other runs are skipped.
SELECT ARRAY[(d.ctid::text::point)[0], (d.ctid::text::point)[1]]::bigint[]::text[] AS mark, d.worker, d.ended_at AS since, 0 AS attempt, d.tasks, d.items
FROM shoal.done d
WHERE d.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1)
  AND d.ctid > format('(%s,%s)', ($2::text[])[1], ($2::text[])[2])::tid AND d.ctid < format('(%s,0)', $6::bigint)::tid
ORDER BY d.ctid LIMIT $3

-- name: page_dead
SELECT ARRAY[d.id::text] AS mark, NULL::text AS worker, d.buried_at AS since, d.attempts AS attempt, ARRAY[d.task] AS tasks, NULL::int[] AS items
FROM shoal.dead d
WHERE d.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND d.id > ($2::text[])[1]::bigint
  AND ($4::text IS NULL OR d.step_group = ANY (ARRAY(SELECT s.id FROM shoal.step_group s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.step = $4)))
ORDER BY d.run, d.id LIMIT $3

-- name: page_delayed
-- Bundles of other steps are skipped.
SELECT ARRAY[(extract(epoch FROM d.due_at) * 1000000)::bigint, d.seq]::text[] AS mark, NULL::text AS worker, NULL::timestamptz AS since, d.attempt, d.tasks, NULL::int[] AS items
FROM shoal.delayed d
WHERE d.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1)
  AND (d.due_at, d.seq) > (timestamptz 'epoch' + ($2::text[])[1]::bigint * interval '1 microsecond', ($2::text[])[2]::bigint)
  AND ($4::text IS NULL OR d.step_group = ANY (ARRAY(SELECT s.id FROM shoal.step_group s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.step = $4)))
ORDER BY d.run, d.due_at, d.seq LIMIT $3

-- name: page_dropped
SELECT ARRAY[d.id::text] AS mark, NULL::text AS worker, d.dropped_at AS since, 0 AS attempt, ARRAY[d.task] AS tasks, NULL::int[] AS items
FROM shoal.dropped d
WHERE d.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND d.id > ($2::text[])[1]::bigint
ORDER BY d.run, d.id LIMIT $3

-- name: page_expired
SELECT ARRAY[d.id::text] AS mark, NULL::text AS worker, d.expired_at AS since, 0 AS attempt, ARRAY[d.task] AS tasks, NULL::int[] AS items
FROM shoal.expired d
WHERE d.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND d.id > ($2::text[])[1]::bigint
ORDER BY d.run, d.id LIMIT $3

-- name: page_leased
-- Leases of other runs are skipped.
SELECT ARRAY[encode(l.task, 'hex')] AS mark, l.worker, l.start_at AS since, l.attempt, ARRAY[l.task] AS tasks, NULL::int[] AS items
FROM shoal.lease l
WHERE l.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND l.task > decode(($2::text[])[1], 'hex')
  AND ($4::text IS NULL OR l.step_group = ANY (ARRAY(SELECT s.id FROM shoal.step_group s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.step = $4)))
ORDER BY l.task LIMIT $3

-- name: page_pending
-- Bundles of other runs and steps are skipped.
SELECT ARRAY[b.host, b.step_group, b.shard, b.priority, b.seq]::text[] AS mark, NULL::text AS worker, NULL::timestamptz AS since, b.attempt, b.tasks, NULL::int[] AS items
FROM shoal.bundle b
WHERE b.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1)
  AND (b.host, b.step_group, b.shard, b.priority, b.seq)
    > (($2::text[])[1]::bigint, ($2::text[])[2]::bigint, ($2::text[])[3]::bigint, ($2::text[])[4]::bigint, ($2::text[])[5]::bigint)
  AND ($4::text IS NULL OR b.step_group = ANY (ARRAY(SELECT s.id FROM shoal.step_group s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.step = $4)))
ORDER BY b.host, b.step_group, b.shard, b.priority, b.seq LIMIT $3
