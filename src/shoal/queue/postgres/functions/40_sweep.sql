-- Changes caused by time alone. Each is bounded, skips rows that are locked, and may be run by any client at any time.

-- Delays that are over: the tasks become pending. Returns a time before which nothing is left to promote, the host queues to arm, and the number of rows moved.
CREATE OR REPLACE FUNCTION shoal.promote(p_run int, p_floor timestamptz, p_limit int, OUT seen timestamptz, OUT host_queues shoal.host_queues, OUT moved int)
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    ts     timestamptz := clock_timestamp();
    picked tid[];
    latest timestamptz;
BEGIN
    seen := ts;
    moved := 0;
    SELECT array_agg(due.ctid), max(due.due_at) INTO picked, latest
    FROM (
        SELECT d.ctid, d.due_at FROM shoal.delayed d
        WHERE d.run = p_run AND d.due_at > p_floor AND d.due_at <= ts
        ORDER BY d.due_at LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ) due;
    IF picked IS NULL THEN
        RETURN;
    END IF;
    moved := cardinality(picked);
    IF moved = p_limit THEN
        seen := latest;
    END IF;
    WITH gone AS (
        DELETE FROM shoal.delayed WHERE ctid = ANY (picked)
        RETURNING host, step_group, shard, priority, attempt, expires_at, tasks
    ), ready AS (
        INSERT INTO shoal.bundle (host, step_group, shard, priority, run, attempt, expires_at, tasks)
        SELECT host, step_group, shard, priority, p_run, attempt, expires_at, tasks FROM gone
    ), totals AS (
        SELECT step_group, host, sum(cardinality(tasks))::int AS n FROM gone GROUP BY 1, 2
    ), changes AS (
        SELECT step_group, host, 1::smallint AS kind, -n AS n FROM totals
        UNION ALL SELECT step_group, host, 0::smallint, n FROM totals
    ), counted AS (
        INSERT INTO shoal.delta (run, step_groups, hosts, kinds, counts)
        SELECT p_run, array_agg(step_group), array_agg(host), array_agg(kind), array_agg(n) FROM changes
    )
    SELECT array_agg(p_run), array_agg(host), array_agg(step_group), array_agg(shard), array_agg(priority) INTO host_queues
    FROM (SELECT host, step_group, shard, max(priority) AS priority FROM gone GROUP BY 1, 2, 3) touched;
END $$;

-- Times to live that are over: the tasks are listed as expired.
CREATE OR REPLACE FUNCTION shoal.expire(p_limit int) RETURNS int
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    ts      timestamptz := clock_timestamp();
    pending tid[];
    waiting tid[];
BEGIN
    SELECT array_agg(old.ctid) INTO pending FROM (
        SELECT b.ctid FROM shoal.bundle b WHERE b.expires_at <= ts ORDER BY b.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED
    ) old;
    SELECT array_agg(old.ctid) INTO waiting FROM (
        SELECT d.ctid FROM shoal.delayed d WHERE d.expires_at <= ts ORDER BY d.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED
    ) old;
    IF pending IS NULL AND waiting IS NULL THEN
        RETURN 0;
    END IF;
    WITH gone AS (
        DELETE FROM shoal.bundle WHERE ctid = ANY (pending) RETURNING run, step_group, host, 0::smallint AS kind, expires_at, tasks
    ), overdue AS (
        DELETE FROM shoal.delayed WHERE ctid = ANY (waiting) RETURNING run, step_group, host, 1::smallint AS kind, expires_at, tasks
    ), ended AS (
        SELECT * FROM gone UNION ALL SELECT * FROM overdue
    ), listed AS (
        INSERT INTO shoal.expired (run, task, expired_at)
        SELECT run, unnest(tasks), expires_at FROM ended
    ), totals AS (
        SELECT run, step_group, host, kind, sum(cardinality(tasks))::int AS n FROM ended GROUP BY 1, 2, 3, 4
    ), changes AS (
        SELECT run, step_group, host, kind, -n AS n FROM totals
        UNION ALL SELECT run, step_group, host, 5::smallint, n FROM totals
    ), counted AS (
        INSERT INTO shoal.delta (run, step_groups, hosts, kinds, counts)
        SELECT run, array_agg(step_group), array_agg(host), array_agg(kind), array_agg(n) FROM changes GROUP BY run
    )
    SELECT 0 INTO p_limit;
    RETURN coalesce(cardinality(pending), 0) + coalesce(cardinality(waiting), 0);
END $$;

-- Fold a batch of deltas into the totals, one caller at a time. Returns their number.
CREATE OR REPLACE FUNCTION shoal.fold_some(p_limit int) RETURNS int
LANGUAGE plpgsql SET jit = off AS $$
DECLARE
    picked tid[];
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('shoal.fold', 0));
    picked := ARRAY(SELECT ctid FROM shoal.delta LIMIT p_limit);
    IF cardinality(picked) = 0 THEN
        RETURN 0;
    END IF;
    WITH taken AS (
        DELETE FROM shoal.delta WHERE ctid = ANY (picked) RETURNING *
    ), changes AS (
        SELECT t.run, t.worker, c.step_group, c.host, c.kind, c.n
        FROM taken t CROSS JOIN LATERAL unnest(t.step_groups, t.hosts, t.kinds, t.counts) AS c(step_group, host, kind, n)
    ), by_step_group AS (
        INSERT INTO shoal.step_group_counters
        SELECT run, step_group, kind, sum(n) FROM changes WHERE kind < 9 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        ON CONFLICT (run, step_group, kind) DO UPDATE SET count = step_group_counters.count + excluded.count
    ), by_host AS (
        INSERT INTO shoal.host_counters
        SELECT run, host, kind, sum(n) FROM changes WHERE kind < 9 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        ON CONFLICT (host, run, kind) DO UPDATE SET count = host_counters.count + excluded.count
    )
    INSERT INTO shoal.worker_counters
    SELECT run, worker, kind, sum(n) FROM changes WHERE worker IS NOT NULL AND kind IN (3, 7, 9) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (run, worker, kind) DO UPDATE SET count = worker_counters.count + excluded.count;
    RETURN cardinality(picked);
END $$;

-- Fold all deltas, as a Shoal before version 8 of the schema requests it.
CREATE OR REPLACE FUNCTION shoal.fold() RETURNS void
LANGUAGE sql AS 'SELECT shoal.fold_some(NULL)';

-- The number of tasks of a run that are not finished.
CREATE OR REPLACE FUNCTION shoal.remaining(p_run int) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(n), 0)::bigint FROM (
        SELECT count AS n FROM shoal.step_group_counters WHERE run = p_run AND kind <= 2
        UNION ALL
        SELECT c.n FROM shoal.delta d CROSS JOIN LATERAL unnest(d.kinds, d.counts) AS c(kind, n)
        WHERE d.run = p_run AND c.kind <= 2
    ) parts
$$;

-- What `reclaim` does besides ending lost leases: all changes caused by time alone, and the queue's own clean-up. Returns whether there is more to do.
CREATE OR REPLACE FUNCTION shoal.tidy(p_limit int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    one   int;
    due   record;
    host_queues shoal.host_queues;
    old   tid[];
    more  boolean := false;
BEGIN
    FOR one IN SELECT r.id FROM shoal.run r WHERE EXISTS (SELECT 1 FROM shoal.delayed d WHERE d.run = r.id AND d.due_at <= clock_timestamp()) LOOP
        SELECT * INTO due FROM shoal.promote(one, '-infinity', p_limit);
        host_queues := shoal.both(host_queues, due.host_queues);
        more := more OR due.moved >= p_limit;
    END LOOP;
    PERFORM shoal.arm(host_queues);
    more := shoal.expire(p_limit) >= p_limit OR more;
    more := shoal.fade(p_limit) >= p_limit OR more;
    more := shoal.expire_known(p_limit) >= p_limit OR more;
    SELECT array_agg(r.ctid) INTO old FROM (
        SELECT ctid FROM shoal.receipt WHERE at < clock_timestamp() - interval '10 minutes' ORDER BY at LIMIT 10 * p_limit FOR UPDATE SKIP LOCKED
    ) r;
    DELETE FROM shoal.receipt WHERE ctid = ANY (old);
    more := coalesce(cardinality(old), 0) >= 10 * p_limit OR more;
    RETURN shoal.fold_some(10 * p_limit) >= 10 * p_limit OR more;
END $$;
