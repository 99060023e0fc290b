-- End leases whose tasks are done, each named once: what `finish` does (see 60_settle.sql) in the usual case, where every outcome of a settlement is Done and
-- none of them changes its host. A statement that could also bury, retry and release costs twice as much, mostly before it reads its first row.
-- It runs with the settings of `settle`.

CREATE OR REPLACE FUNCTION shoal.complete(
    p_run int, p_tasks bytea[], p_tokens bigint[], p_items int[], p_rejects int[], OUT accepted bigint[], OUT freed int[]
)
LANGUAGE plpgsql AS $$
BEGIN
    WITH held AS (
        DELETE FROM shoal.lease l
        USING unnest(p_tasks, p_tokens, p_items, p_rejects) WITH ORDINALITY AS o(task, token, items, rejects, ord)
        WHERE l.task = ANY (p_tasks) AND l.task = o.task AND l.token = o.token
        RETURNING o.ord, l.task, o.items, o.rejects, l.step_group, l.host, l.worker
    ), completed AS (
        INSERT INTO shoal.done (run, ended_at, worker, tasks, items)
        SELECT p_run, clock_timestamp(), worker, array_agg(task), CASE WHEN bool_or(items > 0) THEN array_agg(items) ELSE '{}' END
        FROM held GROUP BY worker
    ), totals AS (
        SELECT worker, step_group, host, count(*)::int AS n, sum(items)::int AS items, sum(rejects)::int AS rejects FROM held GROUP BY 1, 2, 3
    ), counted AS (
        INSERT INTO shoal.delta (run, worker, step_groups, hosts, kinds, counts)
        SELECT p_run, worker, array_agg(step_group), array_agg(host), array_agg(kind), array_agg(n)
        FROM (SELECT worker, step_group, host, unnest('{2,3,7,8}'::smallint[]) AS kind, unnest(ARRAY[-n, n, items, rejects]) AS n FROM totals) c
        WHERE n <> 0 GROUP BY worker
    )
    SELECT (SELECT coalesce(array_agg(ord), '{}') FROM held), (SELECT array_agg(DISTINCT host) FROM totals WHERE host <> 0)
    INTO accepted, freed;
END $$;
