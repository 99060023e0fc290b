-- Tasks by state, page by page.

-- name: entered
-- The ids among $2 that belong to tasks of a run.
SELECT t.id FROM shoal.task t
WHERE t.id = ANY ($2::bytea[]) AND t.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1)

-- name: tasks_completed
-- Completed tasks after the mark $2, a position in table done, and before the block $6: a few blocks, because the table has no index. A row for each
-- task; `behind` counts the tasks after it in its row. Rows of other runs are skipped. A page has rows without a task where none
-- matches, so that its end is known.
SELECT p.mark, p.worker, p.ended_at AS since, 0 AS attempt, t.behind, t.id AS task, t.step, t.partition, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay,
       coalesce(p.items[cardinality(p.tasks) - t.behind], 0) AS items
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
    CROSS JOIN LATERAL (SELECT step, partition FROM shoal.step_group WHERE id = t.step_group OFFSET 0) s
    WHERE ($4::text IS NULL OR s.step = $4) AND ($5::bytea[] IS NULL OR one.id = ANY ($5))
) t ON true
ORDER BY p.n, t.behind DESC

-- name: tasks_dead
-- Dead tasks after the mark $2. The limit applies before any join, and each task is then looked up separately, so that
-- a page costs the same however many tasks there are. It has rows without a task where none matches, so that its end is known.
SELECT p.mark, NULL::text AS worker, p.since AS since, p.attempt AS attempt, t.behind, t.id AS task, t.step, t.partition, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay
FROM (SELECT row_number() OVER () AS n, page.* FROM (
    SELECT ARRAY[d.id::text] AS mark, d.buried_at AS since, d.attempts AS attempt, ARRAY[d.task] AS tasks
    FROM shoal.dead d
    WHERE d.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND d.id > ($2::text[])[1]::bigint
      AND ($4::text IS NULL OR d.step_group = ANY (ARRAY(SELECT s.id FROM shoal.step_group s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.step = $4)))
    ORDER BY d.run, d.id LIMIT $3
) page) p
LEFT JOIN LATERAL (
    SELECT t.*, s.step, s.partition, cardinality(p.tasks) - one.n AS behind
    FROM unnest(p.tasks) WITH ORDINALITY AS one(id, n)
    CROSS JOIN LATERAL (SELECT * FROM shoal.task WHERE id = one.id OFFSET 0) t
    CROSS JOIN LATERAL (SELECT step, partition FROM shoal.step_group WHERE id = t.step_group OFFSET 0) s
    WHERE ($4::text IS NULL OR s.step = $4) AND ($5::bytea[] IS NULL OR one.id = ANY ($5))
) t ON true
WHERE p.n <= $3
ORDER BY p.n, t.behind DESC

-- name: tasks_delayed
-- Delayed tasks after the mark $2, a row for each task; `behind` counts the tasks after it in its bundle. Those of other steps are skipped. A page is
-- the bundles with the first $3 tasks. The limit applies before any join, and each task is then looked up separately, so that a page
-- costs the same however many tasks there are. It has rows without a task where none matches, so that its end is known.
SELECT p.mark, NULL::text AS worker, NULL::timestamptz AS since, p.attempt AS attempt, t.behind, t.id AS task, t.step, t.partition, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay
FROM (
    SELECT *, sum(cardinality(tasks)) OVER (ORDER BY n) - cardinality(tasks) AS before
    FROM (SELECT row_number() OVER () AS n, page.* FROM (
        SELECT ARRAY[(extract(epoch FROM d.due_at) * 1000000)::bigint, d.seq]::text[] AS mark, d.attempt, d.tasks
        FROM shoal.delayed d
        WHERE d.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1)
          AND (d.due_at, d.seq) > (timestamptz 'epoch' + ($2::text[])[1]::bigint * interval '1 microsecond', ($2::text[])[2]::bigint)
          AND ($4::text IS NULL OR d.step_group = ANY (ARRAY(SELECT s.id FROM shoal.step_group s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.step = $4)))
        ORDER BY d.run, d.due_at, d.seq LIMIT $3
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

-- name: tasks_dropped
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
    CROSS JOIN LATERAL (SELECT step, partition FROM shoal.step_group WHERE id = t.step_group OFFSET 0) s
    WHERE ($4::text IS NULL OR s.step = $4) AND ($5::bytea[] IS NULL OR one.id = ANY ($5))
) t ON true
WHERE p.n <= $3
ORDER BY p.n, t.behind DESC

-- name: tasks_expired
-- Expired tasks after the mark $2. The limit applies before any join, and each task is then looked up separately, so that
-- a page costs the same however many tasks there are. It has rows without a task where none matches, so that its end is known.
SELECT p.mark, NULL::text AS worker, p.since AS since, 0 AS attempt, t.behind, t.id AS task, t.step, t.partition, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay
FROM (SELECT row_number() OVER () AS n, page.* FROM (
    SELECT ARRAY[d.id::text] AS mark, d.expired_at AS since, ARRAY[d.task] AS tasks
    FROM shoal.expired d
    WHERE d.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND d.id > ($2::text[])[1]::bigint
    ORDER BY d.run, d.id LIMIT $3
) page) p
LEFT JOIN LATERAL (
    SELECT t.*, s.step, s.partition, cardinality(p.tasks) - one.n AS behind
    FROM unnest(p.tasks) WITH ORDINALITY AS one(id, n)
    CROSS JOIN LATERAL (SELECT * FROM shoal.task WHERE id = one.id OFFSET 0) t
    CROSS JOIN LATERAL (SELECT step, partition FROM shoal.step_group WHERE id = t.step_group OFFSET 0) s
    WHERE ($4::text IS NULL OR s.step = $4) AND ($5::bytea[] IS NULL OR one.id = ANY ($5))
) t ON true
WHERE p.n <= $3
ORDER BY p.n, t.behind DESC

-- name: tasks_leased
-- Leased tasks after the mark $2. Leases of other runs are skipped. The limit applies before any join, and each task is then looked up separately, so that
-- a page costs the same however many tasks there are. It has rows without a task where none matches, so that its end is known.
SELECT p.mark, p.worker AS worker, p.since AS since, p.attempt AS attempt, t.behind, t.id AS task, t.step, t.partition, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay
FROM (SELECT row_number() OVER () AS n, page.* FROM (
    SELECT ARRAY[encode(l.task, 'hex')] AS mark, l.worker, l.start_at AS since, l.attempt, ARRAY[l.task] AS tasks
    FROM shoal.lease l
    WHERE l.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND l.task > decode(($2::text[])[1], 'hex')
      AND ($4::text IS NULL OR l.step_group = ANY (ARRAY(SELECT s.id FROM shoal.step_group s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.step = $4)))
    ORDER BY l.task LIMIT $3
) page) p
LEFT JOIN LATERAL (
    SELECT t.*, s.step, s.partition, cardinality(p.tasks) - one.n AS behind
    FROM unnest(p.tasks) WITH ORDINALITY AS one(id, n)
    CROSS JOIN LATERAL (SELECT * FROM shoal.task WHERE id = one.id OFFSET 0) t
    CROSS JOIN LATERAL (SELECT step, partition FROM shoal.step_group WHERE id = t.step_group OFFSET 0) s
    WHERE ($4::text IS NULL OR s.step = $4) AND ($5::bytea[] IS NULL OR one.id = ANY ($5))
) t ON true
WHERE p.n <= $3
ORDER BY p.n, t.behind DESC

-- name: tasks_pending
-- Pending tasks after the mark $2, a row for each task; `behind` counts the tasks after it in its bundle. Bundles of other runs and steps are skipped. A page is
-- the bundles with the first $3 tasks. The limit applies before any join, and each task is then looked up separately, so that a page
-- costs the same however many tasks there are. It has rows without a task where none matches, so that its end is known.
SELECT p.mark, NULL::text AS worker, NULL::timestamptz AS since, p.attempt AS attempt, t.behind, t.id AS task, t.step, t.partition, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay
FROM (
    SELECT *, sum(cardinality(tasks)) OVER (ORDER BY n) - cardinality(tasks) AS before
    FROM (SELECT row_number() OVER () AS n, page.* FROM (
        SELECT ARRAY[b.host, b.step_group, b.shard, b.priority, b.seq]::text[] AS mark, b.attempt, b.tasks
        FROM shoal.bundle b
        WHERE b.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1)
          AND (b.host, b.step_group, b.shard, b.priority, b.seq)
            > (($2::text[])[1]::bigint, ($2::text[])[2]::bigint, ($2::text[])[3]::bigint, ($2::text[])[4]::bigint, ($2::text[])[5]::bigint)
          AND ($4::text IS NULL OR b.step_group = ANY (ARRAY(SELECT s.id FROM shoal.step_group s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.step = $4)))
        ORDER BY b.host, b.step_group, b.shard, b.priority, b.seq LIMIT $3
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
