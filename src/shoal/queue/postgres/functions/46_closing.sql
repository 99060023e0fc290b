-- Close empty host queues.
--
-- An enqueue that saw the host queue due does not write it, and its tasks may not be visible yet. So a claim that empties a host queue first marks it with its own id
-- (idle = -id), which every later enqueue sees and undoes. A claim that began after the mark was committed then sets its own id (idle = id): it
-- is larger than that of any enqueue that has not seen the mark, which the xmax of a snapshot need not be. Once all below it have ended, everything that
-- had not seen the mark is visible. If the host queue is still empty then, it is empty.
-- A snapshot's xmin waits for every writing transaction of the whole server, also those of other databases. So a host queue that has waited for a second is
-- closed by a narrower test: a transaction that has not seen the mark stored its tasks before it, so it holds a lock on `bundle` until it ends. Once no
-- holder of such a lock has an id below the stored one, the host queue can be closed. If that takes long too, the host queue is checked after 1, 2, 4 … 60 seconds.
--
-- Claims do not search marked host queues, so one that cannot be closed costs them nothing.

-- When to check a host queue that is marked now: at the same moment as others marked in these 200 milliseconds, so that one call checks them together.
CREATE OR REPLACE FUNCTION shoal.first_check(p_now timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$ SELECT date_bin('200 milliseconds', p_now, '2000-01-01 00:00:00+00') + interval '250 milliseconds' $$;

-- Check a batch of marked host queues whose check is due after `p_floor`: those with tasks are due again, the others come closer to their end. `p_before` is a
-- snapshot that the caller took before it had an id. Returns a time before which no check is due.
CREATE OR REPLACE FUNCTION shoal.close_host_queues(p_run int, p_before pg_snapshot, p_floor timestamptz, p_limit int) RETURNS timestamptz
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    ts     timestamptz := clock_timestamp();
    picked record;
    me     bigint;
    ended  bigint;  -- no transaction below it may have stored tasks and not ended
BEGIN
    SELECT array_agg(l.host) AS hosts, array_agg(l.step_group) AS step_groups, array_agg(l.shard) AS shards, max(l.waits) AS waits, max(l.due_at) AS latest
    INTO picked
    FROM (
        SELECT host, step_group, shard, waits, due_at FROM shoal.host_queue
        WHERE run = p_run AND idle IS NOT NULL AND due_at > p_floor AND due_at <= ts
        ORDER BY due_at LIMIT p_limit
        FOR NO KEY UPDATE SKIP LOCKED
    ) l;
    IF picked.hosts IS NULL THEN
        RETURN ts;
    END IF;
    me := pg_current_xact_id()::text::bigint;
    IF picked.waits > 0 THEN
        ended := shoal.oldest_storing(me);
    END IF;

    -- A separate statement, in whose snapshot all is visible that ended before.
    WITH checked AS (
        SELECT p.host, p.step_group, p.shard, best.priority AS best
        FROM unnest(picked.hosts, picked.step_groups, picked.shards) AS p(host, step_group, shard)
        LEFT JOIN LATERAL (
            SELECT b.priority FROM shoal.bundle b
            WHERE b.host = p.host AND b.step_group = p.step_group AND b.shard = p.shard AND (b.expires_at IS NULL OR b.expires_at > ts)
            ORDER BY b.priority DESC LIMIT 1
        ) best ON true
    )
    UPDATE shoal.host_queue l
    SET band = coalesce(c.best, l.band),
        due_at = CASE
            WHEN c.best IS NOT NULL THEN clock_timestamp()
            WHEN l.idle < 0 THEN ts + interval '100 milliseconds'
            WHEN l.idle <= greatest(ended, pg_snapshot_xmin(pg_current_snapshot())::text::bigint) THEN NULL
            ELSE ts + least(60, 1 << l.waits) * interval '1 second' END,
        idle = CASE
            WHEN c.best IS NOT NULL THEN NULL
            WHEN l.idle < 0 THEN CASE WHEN pg_visible_in_snapshot((-l.idle)::text::xid8, p_before) THEN me ELSE -me END
            WHEN l.idle <= greatest(ended, pg_snapshot_xmin(pg_current_snapshot())::text::bigint) THEN NULL
            ELSE l.idle END,
        waits = CASE WHEN c.best IS NULL AND l.idle > 0 THEN least(l.waits + 1, 6) ELSE 0 END
    FROM checked c
    WHERE l.host = ANY (picked.hosts) AND l.step_group = ANY (picked.step_groups)
      AND l.host = c.host AND l.step_group = c.step_group AND l.shard = c.shard;
    RETURN CASE WHEN cardinality(picked.hosts) < p_limit THEN ts ELSE picked.latest END;
END $$;
