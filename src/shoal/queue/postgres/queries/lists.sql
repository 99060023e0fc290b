-- Lists that are read page by page: items, rejects, dead letters, expired tasks, hosts.

-- name: stored
-- A page of items or of rejects, whose table takes the place of `stored_table`, after id $2 and up to $5. It ends early after $6
-- bytes. The limit applies before any join, and each row then looks up its own task, so that a page costs the same however many
-- there are. Those of another step than $4 come without their data: the reader must know how far it has read.
-- An item of a download belongs to the page that asked for it, unless a step was run on the file.
SELECT i.id, i.task, i.stored_at, t.url, s.step, stored_reason AS reason, CASE WHEN $4::text IS NULL OR s.step = $4 THEN i.data END AS data
FROM (
    SELECT page.*, sum(octet_length(data)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - octet_length(data) AS before
    FROM (
        SELECT * FROM shoal.stored_table
        WHERE run = (SELECT id FROM shoal.run WHERE run_id = $1) AND id > $2 AND id <= $5
        ORDER BY run, id
        LIMIT $3
    ) page
) i
CROSS JOIN LATERAL (
    SELECT step_group, CASE WHEN left(payload, 13) = '{"$download":' AND payload::json #> '{$download,runs_step}' IS NULL
        THEN coalesce(payload::json #>> '{$download,origin}', url) ELSE url END AS url
    FROM shoal.task WHERE id = i.task OFFSET 0
) t
CROSS JOIN LATERAL (SELECT step FROM shoal.step_group WHERE id = t.step_group OFFSET 0) s
WHERE i.before < $6
ORDER BY i.id

-- name: read_horizon
-- The last id assigned by sequence $2, and the transactions that may still store rows of run $1 with lower ids.
-- A storing transaction holds the lock of the run from before it gets its ids until its rows are visible. The locks are read
-- after the sequence, because the sub-select refers to `drawn`: a transaction that takes the lock later gets higher ids.
SELECT drawn, ARRAY(
    SELECT virtualtransaction FROM pg_locks
    WHERE drawn > 0 AND locktype = 'advisory' AND granted AND pid <> pg_backend_pid()
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND classid = hashtext('shoal.run')::oid AND objid = known.id::oid AND objsubid = 2
) AS storing
FROM (
    SELECT id, coalesce(pg_sequence_last_value($2::text::regclass), 0) AS drawn
    FROM shoal.run WHERE run_id = $1
) known

-- name: running_transactions
-- The transactions among these that have not ended.
SELECT DISTINCT virtualtransaction FROM pg_locks WHERE locktype = 'advisory' AND virtualtransaction = ANY ($1::text[])

-- name: dead
-- A page of dead letters after id $2, each with the history of its attempts. Letters that do not meet the conditions are skipped. The limit applies before
-- any join, and each row then looks up its own task, so that a page costs the same however many there are.
SELECT d.id, d.task, d.attempts, d.error, d.buried_at,
       t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay, s.step, s.partition,
       history.*
FROM (
    SELECT d.* FROM shoal.dead d
    WHERE d.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND d.id > $2
      AND ($4::text IS NULL OR d.step_group = ANY (ARRAY(SELECT s.id FROM shoal.step_group s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.step = $4)))
      AND ($5::text IS NULL OR d.step_group = ANY (ARRAY(SELECT s.id FROM shoal.step_group s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.partition = $5)))
      AND ($6::text IS NULL OR d.host = ANY (ARRAY(SELECT h.id FROM shoal.host h WHERE h.name = lower($6) OR starts_with(h.name, lower($6) || ':'))))
      AND ($7::text IS NULL OR strpos(d.error, $7) > 0)
      AND ($8::timestamptz IS NULL OR d.buried_at < $8) AND ($9::timestamptz IS NULL OR d.buried_at > $9)
    ORDER BY d.run, d.id
    LIMIT $3
) d
CROSS JOIN LATERAL (SELECT * FROM shoal.task WHERE id = d.task OFFSET 0) t
CROSS JOIN LATERAL (SELECT step, partition FROM shoal.step_group WHERE id = t.step_group OFFSET 0) s
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(a.attempt ORDER BY a.token), '{}') AS h_attempts,
           coalesce(array_agg(a.worker ORDER BY a.token), '{}') AS h_workers,
           coalesce(array_agg(a.error ORDER BY a.token), '{}') AS h_errors,
           coalesce(array_agg(a.ended_at ORDER BY a.token), '{}') AS h_ended
    FROM shoal.attempt a WHERE a.task = d.task AND a.outcome IN ('R', 'B', 'L', 'E')
) history
ORDER BY d.id

-- name: dead_by_id
-- The numbers of the dead letters with the ids $3 after number $2 that meet the conditions.
SELECT d.id FROM shoal.dead d
WHERE d.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND d.id > $2 AND d.task = ANY ($3::bytea[])
  AND ($4::text IS NULL OR d.step_group = ANY (ARRAY(SELECT s.id FROM shoal.step_group s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.step = $4)))
  AND ($5::text IS NULL OR d.step_group = ANY (ARRAY(SELECT s.id FROM shoal.step_group s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.partition = $5)))
  AND ($6::text IS NULL OR d.host = ANY (ARRAY(SELECT h.id FROM shoal.host h WHERE h.name = lower($6) OR starts_with(h.name, lower($6) || ':'))))
  AND ($7::text IS NULL OR strpos(d.error, $7) > 0)
  AND ($8::timestamptz IS NULL OR d.buried_at < $8) AND ($9::timestamptz IS NULL OR d.buried_at > $9)
ORDER BY d.id

-- name: expired
-- A page of expired tasks after id $2. The limit applies before any join, and each row then looks up its own task.
SELECT e.id, e.task, e.expired_at, t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay, s.step, s.partition
FROM (SELECT * FROM shoal.expired WHERE run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND id > $2 ORDER BY run, id LIMIT $3) e
CROSS JOIN LATERAL (SELECT * FROM shoal.task WHERE id = e.task OFFSET 0) t
CROSS JOIN LATERAL (SELECT step, partition FROM shoal.step_group WHERE id = t.step_group OFFSET 0) s
ORDER BY e.id

-- name: hosts
-- A page of all hosts after id $1, with their counts over all runs, less the tasks that wait in runs which have ended. The caller folds first, so that the totals are complete.
SELECT h.id, h.name, greatest(h.delay, h.slowdown) AS delay, coalesce(nullif(h.paused_until, '-infinity') - clock_timestamp(), interval '0') AS paused_for,
       tally.kinds, tally.counts
FROM (SELECT * FROM shoal.host WHERE id > $1 ORDER BY id LIMIT $2) h
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(t.kind), '{}') AS kinds, coalesce(array_agg(t.count), '{}') AS counts
    FROM shoal.host_counters t JOIN shoal.run r ON r.id = t.run
    WHERE t.host = h.id AND NOT (t.kind IN (0, 1) AND r.state IN ('partial', 'cancelled'))
) tally
ORDER BY h.id

-- name: hosts_of_run
-- A page of one run's hosts after id $1, with their counts in it. The caller folds first.
SELECT h.id, h.name, greatest(h.delay, h.slowdown) AS delay, coalesce(nullif(h.paused_until, '-infinity') - clock_timestamp(), interval '0') AS paused_for,
       tally.kinds, tally.counts
FROM (
    SELECT t.host, array_agg(t.kind) AS kinds, array_agg(t.count) AS counts
    FROM shoal.host_counters t
    WHERE t.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $3) AND t.host > $1
    GROUP BY t.host ORDER BY t.host LIMIT $2
) tally
JOIN shoal.host h ON h.id = tally.host
ORDER BY h.id
