-- The replay or drop of dead letters in bulk: p_ids and every condition that is not NULL must match. A p_host without a port matches the host on every port.

CREATE OR REPLACE FUNCTION shoal.dead_places(
    p_run int, p_ids bytea[], p_step text, p_partition text, p_host text, p_error text, p_before timestamptz, p_after timestamptz
) RETURNS bigint[]
LANGUAGE sql AS $$
    SELECT array_agg(d.id) FROM (
        SELECT d.id FROM shoal.dead d
        WHERE d.run = p_run AND (p_ids IS NULL OR d.task = ANY (p_ids))
          AND (p_step IS NULL OR d.step_group IN (SELECT s.id FROM shoal.step_group s WHERE s.run = p_run AND s.step = p_step))
          AND (p_partition IS NULL OR d.step_group IN (SELECT s.id FROM shoal.step_group s WHERE s.run = p_run AND s.partition = p_partition))
          AND (p_host IS NULL OR d.host = ANY (ARRAY(SELECT h.id FROM shoal.host h WHERE h.name = lower(p_host) OR starts_with(h.name, lower(p_host) || ':'))))
          AND (p_error IS NULL OR strpos(d.error, p_error) > 0)
          AND (p_before IS NULL OR d.buried_at < p_before) AND (p_after IS NULL OR d.buried_at > p_after)
        FOR UPDATE
    ) d
$$;

-- The time to live of a task counts from the end of its delay: else a long delay would make it expire unseen.
CREATE OR REPLACE FUNCTION shoal.replay(
    p_call uuid, p_again boolean, p_run_id text, p_ids bytea[],
    p_step text, p_partition text, p_host text, p_error text, p_before timestamptz, p_after timestamptz, p_delay interval
) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    earlier_result   bigint[] := shoal.answered(p_call, p_again);
    ts     timestamptz := clock_timestamp();
    is_delayed boolean := p_delay > interval '0';
    run    shoal.run;
    places bigint[];
    host_queues  shoal.host_queues;
BEGIN
    IF earlier_result IS NOT NULL THEN
        RETURN earlier_result[1];
    END IF;
    run := shoal.known_run(p_run_id);
    places := shoal.dead_places(run.id, p_ids, p_step, p_partition, p_host, p_error, p_before, p_after);
    WITH risen AS (
        DELETE FROM shoal.dead d WHERE d.run = run.id AND d.id = ANY (places)
        RETURNING d.task, d.step_group, d.host, d.shard
    ), numbered AS (
        SELECT r.*, t.priority, t.ttl, row_number() OVER (PARTITION BY r.host, r.step_group, r.shard, t.priority, t.ttl) AS n
        FROM risen r JOIN shoal.task t ON t.id = r.task
    ), bundled AS (
        SELECT host, step_group, shard, priority, ts + p_delay + ttl AS expires_at, array_agg(task) AS tasks
        FROM numbered GROUP BY host, step_group, shard, priority, ttl, (n - 1) / 64
    ), ready AS (
        INSERT INTO shoal.bundle (host, step_group, shard, priority, run, attempt, expires_at, tasks)
        SELECT host, step_group, shard, priority, run.id, 0, expires_at, tasks FROM bundled WHERE NOT is_delayed
        RETURNING host, step_group, shard, priority
    ), later AS (
        INSERT INTO shoal.delayed (run, due_at, host, step_group, shard, priority, attempt, expires_at, tasks)
        SELECT run.id, ts + p_delay, host, step_group, shard, priority, 0, expires_at, tasks FROM bundled WHERE is_delayed
    ), totals AS (
        SELECT step_group, host, count(*)::int AS n FROM risen GROUP BY 1, 2
    ), changes AS (
        SELECT step_group, host, 4::smallint AS kind, -n AS n FROM totals
        UNION ALL SELECT step_group, host, is_delayed::int::smallint, n FROM totals
    ), counted AS (
        INSERT INTO shoal.delta (run, step_groups, hosts, kinds, counts)
        SELECT run.id, array_agg(step_group), array_agg(host), array_agg(kind), array_agg(n) FROM changes HAVING count(*) > 0
    )
    SELECT array_agg(run.id), array_agg(host), array_agg(step_group), array_agg(shard), array_agg(priority) INTO host_queues
    FROM (SELECT host, step_group, shard, max(priority) AS priority FROM ready GROUP BY 1, 2, 3) touched;
    PERFORM shoal.arm(host_queues);
    INSERT INTO shoal.receipt VALUES (p_call, ts, ARRAY[coalesce(cardinality(places), 0)]);
    RETURN coalesce(cardinality(places), 0);
END $$;

CREATE OR REPLACE FUNCTION shoal.drop_dead(
    p_call uuid, p_again boolean, p_run_id text, p_ids bytea[],
    p_step text, p_partition text, p_host text, p_error text, p_before timestamptz, p_after timestamptz
) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    earlier_result   bigint[] := shoal.answered(p_call, p_again);
    run    shoal.run;
    places bigint[];
BEGIN
    IF earlier_result IS NOT NULL THEN
        RETURN earlier_result[1];
    END IF;
    run := shoal.known_run(p_run_id);
    places := shoal.dead_places(run.id, p_ids, p_step, p_partition, p_host, p_error, p_before, p_after);
    WITH gone AS (
        DELETE FROM shoal.dead d WHERE d.run = run.id AND d.id = ANY (places) RETURNING d.task, d.step_group, d.host
    ), listed AS (
        INSERT INTO shoal.dropped (run, task, dropped_at) SELECT run.id, task, clock_timestamp() FROM gone
    ), totals AS (
        SELECT step_group, host, count(*)::int AS n FROM gone GROUP BY 1, 2
    ), changes AS (
        SELECT step_group, host, 4::smallint AS kind, -n AS n FROM totals
        UNION ALL SELECT step_group, host, 6::smallint, n FROM totals
    )
    INSERT INTO shoal.delta (run, step_groups, hosts, kinds, counts)
    SELECT run.id, array_agg(step_group), array_agg(host), array_agg(kind), array_agg(n) FROM changes HAVING count(*) > 0;
    INSERT INTO shoal.receipt VALUES (p_call, clock_timestamp(), ARRAY[coalesce(cardinality(places), 0)]);
    RETURN coalesce(cardinality(places), 0);
END $$;
