-- Host queues are made due by the call that adds tasks to them or frees their host. Rows are locked in one order everywhere, and once per transaction,
-- so that two calls never deadlock.

CREATE OR REPLACE FUNCTION shoal.both(a shoal.host_queues, b shoal.host_queues) RETURNS shoal.host_queues
LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW((a).runs || (b).runs, (a).hosts || (b).hosts, (a).step_groups || (b).step_groups, (a).shards || (b).shards, (a).bands || (b).bands)::shoal.host_queues
$$;

-- Make the host queues due that have just received tasks. Nothing is ever made due in the past: a claimer may have searched there already.
-- A host queue that is due already, and not about to be closed, is not written: a busy host queue is no hot row. One that is written is due now, even if only its band rises:
-- a call that frees its host in the meantime skips it, because it is locked here.
CREATE OR REPLACE FUNCTION shoal.arm(p_host_queues shoal.host_queues) RETURNS void
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    p_hosts int[] := p_host_queues.hosts; p_step_groups int[] := p_host_queues.step_groups; p_shards smallint[] := p_host_queues.shards; p_bands smallint[] := p_host_queues.bands;
    k_hosts int[]; k_step_groups int[]; k_shards smallint[]; k_bands smallint[];  -- of the host queues to write
BEGIN
    IF p_hosts IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO shoal.host_queue (host, step_group, shard, run, band, due_at)
    SELECT n.host, n.step_group, n.shard, n.run, max(n.band), clock_timestamp()
    FROM unnest(p_host_queues.runs, p_hosts, p_step_groups, p_shards, p_bands) AS n(run, host, step_group, shard, band)
    LEFT JOIN LATERAL (
        SELECT true AS known FROM shoal.host_queue l
        WHERE l.host = n.host AND l.step_group = n.step_group AND l.shard = n.shard OFFSET 0
    ) l ON true
    WHERE l.known IS NULL
    GROUP BY n.host, n.step_group, n.shard, n.run
    ORDER BY n.host, n.step_group, n.shard
    ON CONFLICT DO NOTHING;

    -- Two statements: the host queues are locked in order, then written. No others are written, or two calls could deadlock: a host queue that a claim has marked as
    -- empty in between is left to the check of marked host queues, as it would be if the claim came after this call.
    SELECT array_agg(k.host), array_agg(k.step_group), array_agg(k.shard), array_agg(k.band) INTO k_hosts, k_step_groups, k_shards, k_bands
    FROM (
        SELECT l.host, l.step_group, l.shard, n.band FROM shoal.host_queue l
        JOIN (
            SELECT n.host, n.step_group, n.shard, max(n.band) AS band
            FROM unnest(p_hosts, p_step_groups, p_shards, p_bands) AS n(host, step_group, shard, band)
            GROUP BY 1, 2, 3
        ) n USING (host, step_group, shard)
        WHERE l.host = ANY (p_hosts) AND l.step_group = ANY (p_step_groups)
          AND (l.due_at IS NULL OR l.idle IS NOT NULL OR l.band < n.band)
        ORDER BY l.host, l.step_group, l.shard
        FOR NO KEY UPDATE OF l
    ) k;
    IF k_hosts IS NULL THEN
        RETURN;
    END IF;

    UPDATE shoal.host_queue l
    SET band = CASE WHEN l.due_at IS NULL OR l.idle IS NOT NULL THEN k.band ELSE greatest(l.band, k.band) END,
        due_at = clock_timestamp(),
        idle = NULL
    FROM unnest(k_hosts, k_step_groups, k_shards, k_bands) AS k(host, step_group, shard, band)
    WHERE l.host = k.host AND l.step_group = k.step_group AND l.shard = k.shard
      AND l.host = ANY (k_hosts) AND l.step_group = ANY (k_step_groups);
END $$;

-- Bring forward the host queues that wait longer than the rate limit and per_host of their host now require: a lease of the host has ended, or a limit was changed.
-- A host queue that is locked by another call is skipped: a claimer is rescheduling it anyway, and waiting for it could deadlock. One that a claimer has just
-- rescheduled may become due too early, by the limits as they were before: the next claim checks it and finds that.
CREATE OR REPLACE FUNCTION shoal.wake(p_hosts int[]) RETURNS void
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    ts timestamptz := clock_timestamp();
BEGIN
    IF p_hosts IS NULL THEN
        RETURN;
    END IF;
    WITH woken AS MATERIALIZED (
        SELECT l.host, l.step_group, l.shard, greatest(h.free_at, h.last_at + r.host_delay) AS due_at
        FROM shoal.host_queue l
        JOIN (
            SELECT id, last_at, greatest(ts, paused_until, last_at + greatest(last_gap, delay, slowdown)) AS free_at
            FROM shoal.host WHERE id = ANY (p_hosts)
        ) h ON h.id = l.host
        CROSS JOIN LATERAL (SELECT run.host_delay FROM shoal.run WHERE run.id = l.run OFFSET 0) r
        WHERE l.host = ANY (p_hosts) AND l.idle IS NULL AND l.due_at > greatest(h.free_at, h.last_at + r.host_delay)
        FOR NO KEY UPDATE OF l SKIP LOCKED
    )
    UPDATE shoal.host_queue l SET due_at = w.due_at FROM woken w
    WHERE l.host = ANY (p_hosts) AND l.host = w.host AND l.step_group = w.step_group AND l.shard = w.shard;
END $$;

-- The oldest transaction that may have stored tasks and has not ended: the lowest id of those that hold a writer's lock on `bundle`, the caller's own
-- if there is none below. The caller has an id. A transaction that gets the lock or an id after this check has seen every mark set before it.
CREATE OR REPLACE FUNCTION shoal.oldest_storing(p_me bigint) RETURNS bigint
LANGUAGE sql AS $$
    WITH locks AS MATERIALIZED (
        SELECT locktype, database, relation, mode, virtualtransaction, transactionid FROM pg_locks WHERE granted
    )
    -- Ids in pg_locks lack their upper half; their age counts from the caller's.
    SELECT coalesce(min(p_me - age(own.transactionid)), p_me)
    FROM locks storing JOIN locks own USING (virtualtransaction)
    WHERE storing.locktype = 'relation' AND storing.relation = 'shoal.bundle'::regclass AND storing.mode <> 'AccessShareLock'
      AND storing.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND own.locktype = 'transactionid' AND own.mode = 'ExclusiveLock'
$$;
