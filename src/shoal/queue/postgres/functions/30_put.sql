-- Add tasks to a run. The names of hosts and step groups are distinct; the tasks refer to them by position.
-- Returns the number of new keys and their host queues. A duplicate writes nothing; nor does a task of an outcome (p_of) that was not accepted.

CREATE OR REPLACE FUNCTION shoal.put(
    p_run int, p_hosts text[], p_steps text[], p_partitions text[], p_bands int[],
    p_ids bytea[], p_host int[], p_step_group int[], p_priority smallint[], p_depth int[],
    p_ttl interval[], p_delay interval[], p_url text[], p_key text[], p_payload text[],
    p_of int[], p_accepted bigint[], OUT added int, OUT host_queues shoal.host_queues
)
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    hosts    int[] := shoal.host_ids(p_hosts);
    step_groups int[] := shoal.step_group_ids(p_run, p_steps, p_partitions, p_bands);
    ts       timestamptz := clock_timestamp();
    got      record;
BEGIN
    WITH fresh AS (
        -- The dupefilter. In key order: two producers with the same keys then wait for each other, but never deadlock. Of two with the same key the first enters.
        INSERT INTO shoal.task (id, run, step_group, host, priority, depth, ttl, delay, url, key, payload)
        SELECT t.id, p_run, step_groups[t.step_group], hosts[t.host], t.priority, t.depth, t.ttl, t.delay, t.url, t.key, t.payload
        FROM unnest(p_ids, p_host, p_step_group, p_priority, p_depth, p_ttl, p_delay, p_url, p_key, p_payload, p_of)
            AS t(id, host, step_group, priority, depth, ttl, delay, url, key, payload, of)
        WHERE p_accepted IS NULL OR t.of = ANY (p_accepted)
        ORDER BY t.id, t.of
        ON CONFLICT (id) DO NOTHING
        RETURNING id, host, step_group, priority, ttl, delay
    ), placed AS (
        SELECT *, CASE WHEN host = 0 THEN get_byte(id, 15) & 7 ELSE 0 END AS shard
        FROM fresh
    ), numbered AS (
        SELECT *, row_number() OVER (PARTITION BY host, step_group, shard, priority, ttl, delay) AS n
        FROM placed
    ), bundled AS (
        SELECT host, step_group, shard, priority, ttl, delay, array_agg(id) AS tasks
        FROM numbered
        GROUP BY host, step_group, shard, priority, ttl, delay, (n - 1) / 64
    ), ready AS (
        INSERT INTO shoal.bundle (host, step_group, shard, priority, run, attempt, expires_at, tasks)
        SELECT host, step_group, shard, priority, p_run, 0, ts + ttl, tasks
        FROM bundled WHERE delay IS NULL
        RETURNING host, step_group, shard, priority
    ), later AS (
        INSERT INTO shoal.delayed (run, due_at, host, step_group, shard, priority, attempt, expires_at, tasks)
        SELECT p_run, ts + delay, host, step_group, shard, priority, 0, ts + ttl, tasks
        FROM bundled WHERE delay IS NOT NULL
    ), totals AS (
        SELECT step_group, host, (delay IS NOT NULL)::int::smallint AS kind, sum(cardinality(tasks))::int AS n
        FROM bundled GROUP BY 1, 2, 3
    ), counted AS (
        INSERT INTO shoal.delta (run, step_groups, hosts, kinds, counts)
        SELECT p_run, array_agg(step_group), array_agg(host), array_agg(kind), array_agg(n)
        FROM totals HAVING count(*) > 0
    )
    SELECT (SELECT coalesce(sum(n), 0) FROM totals) AS added,
           ROW(array_agg(p_run), array_agg(host), array_agg(step_group), array_agg(shard), array_agg(priority))::shoal.host_queues AS host_queues
    INTO got
    FROM (SELECT host, step_group, shard, max(priority) AS priority FROM ready GROUP BY 1, 2, 3) touched;
    added := got.added;
    host_queues := got.host_queues;
END $$;

CREATE OR REPLACE FUNCTION shoal.enqueue(
    p_call uuid, p_again boolean, p_run_id text, p_hosts text[], p_steps text[], p_partitions text[], p_bands int[],
    p_ids bytea[], p_host int[], p_step_group int[], p_priority smallint[], p_depth int[],
    p_ttl interval[], p_delay interval[], p_url text[], p_key text[], p_payload text[], p_keys bytea[],
    OUT added int, OUT known int
)
LANGUAGE plpgsql AS $$
DECLARE
    earlier_result    bigint[] := shoal.answered(p_call, p_again);
    run     shoal.run;
    done    record;
    may     int[];     -- 1 for each task that may enter, if that is checked
    entered bigint[];
BEGIN
    IF earlier_result IS NOT NULL THEN
        added := earlier_result[1];
        known := coalesce(earlier_result[2], 0);
        RETURN;
    END IF;
    run := shoal.known_run(p_run_id);
    known := 0;
    IF p_keys IS NOT NULL AND run.dedup IS NOT NULL THEN
        SELECT l.of, l.known INTO may, known FROM shoal.leave_out_known(run, p_ids, p_keys, NULL, NULL) l;
        entered := ARRAY[1];
    END IF;
    SELECT * INTO done FROM shoal.put(run.id, p_hosts, p_steps, p_partitions, p_bands, p_ids, p_host, p_step_group, p_priority, p_depth,
                                      p_ttl, p_delay, p_url, p_key, p_payload, may, entered);
    PERFORM shoal.arm(done.host_queues);
    INSERT INTO shoal.receipt VALUES (p_call, clock_timestamp(), ARRAY[done.added, known]);
    added := done.added;
END $$;
