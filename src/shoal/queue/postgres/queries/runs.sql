-- Runs: created, changed, counted and purged; and the keys that they share.

-- name: start_run
-- Create a run unless one with this id exists, and return whether this call created it.
WITH earlier AS MATERIALIZED (
    SELECT shoal.answered($1, $2) IS NOT NULL AS created
), added AS (
    INSERT INTO shoal.run (run_id, scraper, host_delay, per_host, max_attempts, ttl, dedup, dedup_steps)
    SELECT $3, $4, $5, $6, $7, $8, $9, $10 FROM earlier WHERE NOT created
    ON CONFLICT (run_id) DO NOTHING
    RETURNING id
), noted AS (
    INSERT INTO shoal.receipt SELECT $1, clock_timestamp(), ARRAY[id] FROM added
)
SELECT created OR EXISTS (SELECT FROM added) FROM earlier

-- name: runs
-- All runs, the newest first, or the one with this id.
SELECT * FROM shoal.run WHERE $1::text IS NULL OR run_id = $1 ORDER BY id DESC

-- name: steer
-- Set the state of a run if its current state allows it.
UPDATE shoal.run SET state = $2, reason = $3 WHERE run_id = $1 AND state = ANY ($4::text[])

-- name: change_run
UPDATE shoal.run SET host_delay = $2, per_host = $3, max_attempts = $4 WHERE run_id = $1

-- name: shorten_gaps
-- The hosts of a run keep the gap of their last start, which may be of another run. One that equals the run's old delay $2 becomes
-- the new one, $3, or a run that gets faster would wait for its old delay once more. In the order of their ids, as every call locks hosts.
UPDATE shoal.host h SET last_gap = $3::interval
FROM (
    SELECT id FROM shoal.host
    WHERE last_gap = $2::interval AND last_gap > $3::interval AND id IN (
        SELECT l.host FROM shoal.host_queue l JOIN shoal.run r ON r.id = l.run WHERE r.run_id = $1
    )
    ORDER BY id FOR NO KEY UPDATE
) waiting
WHERE h.id = waiting.id

-- name: wake_run
-- Bring the host queues of a run's hosts forward as far as its limits now allow.
SELECT shoal.wake((SELECT array_agg(DISTINCT l.host) FROM shoal.host_queue l JOIN shoal.run r ON r.id = l.run WHERE r.run_id = $1 AND l.host > 0))

-- name: stats
-- The counts of a run: the totals, and the deltas that are not folded yet.
SELECT s.step, s.partition, parts.kind, sum(parts.count)::bigint AS count
FROM shoal.run r
CROSS JOIN LATERAL (
    SELECT step_group, kind, count FROM shoal.step_group_counters WHERE run = r.id
    UNION ALL
    SELECT c.step_group, c.kind, c.count
    FROM shoal.delta d CROSS JOIN LATERAL unnest(d.step_groups, d.kinds, d.counts) AS c(step_group, kind, count)
    WHERE d.run = r.id AND c.kind < 9
) parts
JOIN shoal.step_group s ON s.id = parts.step_group
WHERE r.run_id = $1
GROUP BY 1, 2, 3

-- name: store_size
-- The bytes of all tables of the schema $1, with their indexes and large values.
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class c WHERE c.relnamespace = to_regnamespace(quote_ident($1)) AND c.relkind = 'r'

-- name: purge_blocks
-- The number of blocks of a table.
SELECT (pg_relation_size('shoal.purge_table') / current_setting('block_size')::int)::int + 1

-- name: purge_rows
-- Delete up to $2 rows of run $1 from a table that is indexed by run and id; returns how many.
WITH gone AS (
    DELETE FROM shoal.purge_table t WHERE t.run = $1
      AND t.ctid = ANY (ARRAY(SELECT s.ctid FROM shoal.purge_table s WHERE s.run = $1 LIMIT $2))
    RETURNING 1
)
SELECT count(*) FROM gone

-- name: purge_scan
-- Delete the rows of run $1 from some blocks of a table without an index on the run.
DELETE FROM shoal.purge_table t WHERE t.ctid >= $2::text::tid AND t.ctid < $3::text::tid AND t.run = $1

-- name: forget
-- Delete the next keys of a scraper, in key order, as enqueuing transactions lock them. Returns how many had not expired, and the last one.
WITH page AS (
    SELECT key FROM shoal.dedup WHERE scraper = $1 AND key > $2 ORDER BY key LIMIT $3 FOR UPDATE
), gone AS (
    DELETE FROM shoal.dedup k USING page WHERE k.scraper = $1 AND k.key = page.key
    RETURNING k.key, k.until > clock_timestamp() AS is_known
)
SELECT count(*) FILTER (WHERE is_known), (SELECT key FROM page ORDER BY key DESC LIMIT 1) FROM gone
