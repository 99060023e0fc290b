-- End leases, each named once; the codes of outcomes are D for Done, F for Release (freed) and those of table attempt. A traceback below an error stays out of dead.error, which filters search. The first statement deletes the live leases with exactly this token; what follows touches only those.
-- Returns which positions were accepted, which hosts have a lease less, and which host queues got tasks back.

CREATE OR REPLACE FUNCTION shoal.finish(
    p_run shoal.run, p_tasks bytea[], p_tokens bigint[], p_codes text[], p_after interval[], p_errors text[],
    p_pause interval[], p_slow interval[], p_items int[], p_rejects int[], p_unused boolean[] DEFAULT NULL,
    OUT accepted bigint[], OUT freed int[], OUT host_queues shoal.host_queues
)
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    ts     timestamptz := clock_timestamp();
    got    record;
    one    record;
    given  int[];          -- hosts that got no request
    starts timestamptz[];  -- and the starts that they get back
BEGIN
    WITH held AS (
        DELETE FROM shoal.lease l
        USING unnest(p_tasks, p_tokens, p_codes, p_after, p_errors, p_pause, p_slow, p_items, p_rejects, p_unused) WITH ORDINALITY
            AS o(task, token, code, after, error, pause, slow, items, rejects, unused, ord)
        WHERE l.task = ANY (p_tasks) AND l.task = o.task AND l.token = o.token
        RETURNING o.*, l.run, l.step_group, l.host, l.shard, l.priority, l.attempt, l.start_at, l.expires_at, l.worker,
                  o.code = 'B' OR o.code IN ('R', 'L') AND l.attempt >= p_run.max_attempts AS buried
    ), logged AS (
        INSERT INTO shoal.attempt (task, token, run, attempt, outcome, start_at, ended_at, worker, error)
        SELECT task, token, run, attempt, code::"char", start_at, ts, worker, error FROM held WHERE code NOT IN ('D', 'F')
    ), completed AS (
        INSERT INTO shoal.done (run, ended_at, worker, tasks, items)
        SELECT p_run.id, ts, worker, array_agg(task), CASE WHEN bool_or(items > 0) THEN array_agg(items) ELSE '{}' END
        FROM held WHERE code = 'D' GROUP BY worker
    ), buried AS (
        INSERT INTO shoal.dead (run, task, step_group, host, shard, attempts, buried_at, error)
        SELECT run, task, step_group, host, shard, attempt, ts, split_part(error, E'\n', 1) FROM held WHERE held.buried ORDER BY ord
    ), back AS (
        -- After a retry, a lost lease or a release, the task waits again.
        SELECT host, step_group, shard, priority, CASE WHEN code = 'F' THEN attempt - 1 ELSE attempt END::smallint AS attempt, expires_at,
               CASE WHEN after > interval '0' THEN ts + after END AS due_at, task
        FROM held WHERE code IN ('R', 'L', 'F') AND NOT held.buried
    ), ready AS (
        INSERT INTO shoal.bundle (host, step_group, shard, priority, run, attempt, expires_at, tasks)
        SELECT host, step_group, shard, priority, p_run.id, attempt, expires_at, array_agg(task)
        FROM back WHERE due_at IS NULL GROUP BY host, step_group, shard, priority, attempt, expires_at
        RETURNING host, step_group, shard, priority
    ), later AS (
        INSERT INTO shoal.delayed (run, due_at, host, step_group, shard, priority, attempt, expires_at, tasks)
        SELECT p_run.id, due_at, host, step_group, shard, priority, attempt, expires_at, ARRAY[task]
        FROM back WHERE due_at IS NOT NULL
    ), changes AS (
        SELECT h.step_group, h.host, h.worker, c.kind::smallint AS kind, sum(c.n)::int AS n
        FROM held h CROSS JOIN LATERAL (VALUES
            (2, -1),
            (CASE WHEN h.buried THEN 4 WHEN h.code = 'D' THEN 3 WHEN h.after > interval '0' THEN 1 ELSE 0 END, 1),
            (7, h.items), (8, h.rejects), (9, CASE WHEN h.code IN ('R', 'B', 'L') THEN 1 ELSE 0 END)
        ) AS c(kind, n)
        WHERE c.n <> 0 GROUP BY 1, 2, 3, 4
    ), counted AS (
        INSERT INTO shoal.delta (run, worker, step_groups, hosts, kinds, counts)
        SELECT p_run.id, worker, array_agg(step_group), array_agg(host), array_agg(kind), array_agg(n) FROM changes GROUP BY worker
    ), touched AS (
        SELECT host, step_group, shard, max(priority) AS band FROM ready GROUP BY 1, 2, 3
    ), host_limits AS (
        SELECT host, max(pause) AS pause, (array_agg(slow ORDER BY ord DESC) FILTER (WHERE slow IS NOT NULL))[1] AS slow
        FROM held WHERE host <> 0 AND (pause IS NOT NULL OR slow IS NOT NULL) GROUP BY 1
    )
    SELECT (SELECT coalesce(array_agg(ord), '{}') FROM held) AS accepted, (SELECT array_agg(DISTINCT host) FROM held WHERE host <> 0) AS freed,
           (SELECT ROW(array_agg(p_run.id), array_agg(host), array_agg(step_group), array_agg(shard), array_agg(band))::shoal.host_queues FROM touched) AS host_queues,
           (SELECT array_agg(host) FROM host_limits) AS hosts, (SELECT array_agg(pause) FROM host_limits) AS pauses, (SELECT array_agg(slow) FROM host_limits) AS delays,
           CASE WHEN p_unused IS NOT NULL THEN (SELECT array_agg(host) FROM held WHERE host <> 0 AND held.unused) END AS given,
           CASE WHEN p_unused IS NOT NULL THEN (SELECT array_agg(start_at) FROM held WHERE host <> 0 AND held.unused) END AS starts
    INTO got;
    accepted := got.accepted;
    freed := got.freed;
    host_queues := got.host_queues;

    IF got.given IS NOT NULL THEN
        -- A host without stored starts has no gap: it is not even locked.
        SELECT array_agg(u.host), array_agg(u.start_at) INTO given, starts
        FROM unnest(got.given, got.starts) AS u(host, start_at)
        JOIN shoal.host h ON h.id = u.host AND cardinality(h.earlier_at) > 0
        WHERE h.id = ANY (got.given);
    END IF;
    IF got.hosts IS NOT NULL OR given IS NOT NULL THEN
        PERFORM 1 FROM shoal.host WHERE id = ANY (got.hosts || given) ORDER BY id FOR NO KEY UPDATE;
    END IF;
    IF given IS NOT NULL THEN
        FOR one IN SELECT u.host, array_agg(u.start_at) AS starts FROM unnest(given, starts) AS u(host, start_at) GROUP BY 1 LOOP
            PERFORM shoal.give_back(one.host, one.starts);
        END LOOP;
    END IF;
    IF got.hosts IS NOT NULL THEN
        UPDATE shoal.host h
        SET paused_until = greatest(h.paused_until, ts + c.pause), slowdown = coalesce(c.slow, h.slowdown)
        FROM unnest(got.hosts, got.pauses, got.delays) AS c(host, pause, slow)
        WHERE h.id = ANY (got.hosts) AND h.id = c.host;
    END IF;
END $$;

-- Settle (ack): apply the outcomes of one run's leases, with their items, rejects and follow-up tasks (by position). Outcomes p_also_of have
-- the follow-up tasks at p_also too, besides those that p_follow_of names first.
-- Locks are taken in the order leases, hosts, known keys, tasks, host queues, so that two settlements never deadlock.
CREATE OR REPLACE FUNCTION shoal.settle(
    p_call uuid, p_again boolean, p_run_id text,
    p_tasks bytea[], p_tokens bigint[], p_codes text[], p_after interval[], p_errors text[], p_pause interval[], p_slow interval[],
    p_items int[], p_rejects int[],
    p_item_of int[], p_item_data text[],
    p_reject_of int[], p_reject_data text[], p_reject_reason text[],
    p_follow_of int[], p_hosts text[], p_steps text[], p_partitions text[], p_bands int[],
    p_ids bytea[], p_host int[], p_step_group int[], p_priority smallint[], p_depth int[],
    p_ttl interval[], p_delay interval[], p_url text[], p_key text[], p_payload text[], p_unused boolean[], p_also_of int[], p_also int[], p_keys bytea[]
) RETURNS bigint[]
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    earlier_result  bigint[] := shoal.answered(p_call, p_again);
    run   shoal.run;
    ended record;
    all_accepted boolean;
    added record;
    host_queues shoal.host_queues;
BEGIN
    IF earlier_result IS NOT NULL THEN
        RETURN earlier_result;
    END IF;
    run := shoal.run_named(p_run_id);
    IF run.id IS NULL THEN  -- purged: every lease of it is stale
        RETURN '{}';
    END IF;
    IF p_pause IS NULL AND p_slow IS NULL AND p_unused IS NULL AND 'D' = ALL (p_codes) THEN
        ended := shoal.complete(run.id, p_tasks, p_tokens, p_items, p_rejects);
    ELSE
        ended := shoal.finish(run, p_tasks, p_tokens, p_codes, p_after, p_errors, p_pause, p_slow, p_items, p_rejects, p_unused);
        host_queues := ended.host_queues;
    END IF;
    all_accepted := cardinality(ended.accepted) = cardinality(p_tasks);

    IF cardinality(p_item_of) > 0 THEN
        INSERT INTO shoal.item (run, task, stored_at, data)
        SELECT run.id, p_tasks[i.of], clock_timestamp(), i.data
        FROM unnest(p_item_of, p_item_data) AS i(of, data)
        WHERE all_accepted OR i.of = ANY (ended.accepted);
    END IF;
    IF cardinality(p_reject_of) > 0 THEN
        INSERT INTO shoal.reject (run, task, stored_at, data, reason)
        SELECT run.id, p_tasks[i.of], clock_timestamp(), i.data, i.reason
        FROM unnest(p_reject_of, p_reject_data, p_reject_reason) AS i(of, data, reason)
        WHERE all_accepted OR i.of = ANY (ended.accepted);
    END IF;
    IF cardinality(p_also) > 0 AND NOT all_accepted THEN
        -- A task that several outcomes have is sent once. It enters with the first accepted one of them, not only with the first.
        p_follow_of := ARRAY(
            SELECT coalesce(min(f.of) FILTER (WHERE f.of = ANY (ended.accepted)), 0)
            FROM (
                SELECT of, ord FROM unnest(p_follow_of) WITH ORDINALITY AS f(of, ord)
                UNION ALL SELECT of, ord FROM unnest(p_also_of, p_also) AS f(of, ord)
            ) f
            GROUP BY f.ord ORDER BY f.ord
        );
    END IF;
    IF cardinality(p_ids) > 0 AND cardinality(ended.accepted) > 0 THEN
        IF p_keys IS NOT NULL AND run.dedup IS NOT NULL THEN
            SELECT l.of INTO p_follow_of FROM shoal.leave_out_known(run, p_ids, p_keys, p_follow_of, ended.accepted) l;
        END IF;
        SELECT * INTO added FROM shoal.put(run.id, p_hosts, p_steps, p_partitions, p_bands, p_ids, p_host, p_step_group, p_priority, p_depth,
                                           p_ttl, p_delay, p_url, p_key, p_payload, p_follow_of, ended.accepted);
        host_queues := shoal.both(host_queues, added.host_queues);
    END IF;
    IF host_queues.hosts IS NOT NULL THEN
        PERFORM shoal.arm(host_queues);
    END IF;
    IF ended.freed IS NOT NULL THEN
        PERFORM shoal.wake(ended.freed);
    END IF;
    INSERT INTO shoal.receipt VALUES (p_call, clock_timestamp(), ended.accepted);
    RETURN ended.accepted;
END $$;

-- Renew live leases: extend their deadlines. Returns the positions whose lease is live.
CREATE OR REPLACE FUNCTION shoal.extend(p_tasks bytea[], p_tokens bigint[], p_lease interval) RETURNS bigint[]
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    accepted bigint[];
BEGIN
    WITH moved AS (
        UPDATE shoal.lease l SET deadline = clock_timestamp() + p_lease
        FROM unnest(p_tasks, p_tokens) AS o(task, token)
        WHERE l.task = ANY (p_tasks) AND l.task = o.task AND l.token = o.token
        RETURNING l.task, l.token
    )
    SELECT coalesce(array_agg(o.ord), '{}') INTO accepted
    FROM unnest(p_tasks, p_tokens) WITH ORDINALITY AS o(task, token, ord) JOIN moved m ON m.task = o.task AND m.token = o.token;
    RETURN accepted;
END $$;

-- The reclaim of a bounded number of expired leases, those whose deadline (visibility_timeout) has passed. Returns their number, a time before which no more are left, the hosts to wake and the host queues to arm.
CREATE OR REPLACE FUNCTION shoal.take_back(
    p_floor timestamptz, p_limit int, OUT total int, OUT seen timestamptz, OUT freed int[], OUT host_queues shoal.host_queues
)
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    lost  record;
    owner shoal.run;
    ended record;
    ts    timestamptz := clock_timestamp();
BEGIN
    total := 0;
    seen := ts;
    FOR lost IN
        SELECT l.run, array_agg(l.task) AS tasks, array_agg(l.token) AS tokens, array_agg('L'::text) AS codes,
               array_agg('lease lost'::text) AS errors, array_agg(0) AS none, array_agg(NULL::interval) AS never, min(l.deadline) AS first
        FROM (
            SELECT run, task, token, deadline FROM shoal.lease WHERE deadline > p_floor AND deadline <= ts
            ORDER BY deadline LIMIT p_limit FOR UPDATE SKIP LOCKED
        ) l GROUP BY l.run ORDER BY l.run
    LOOP
        SELECT * INTO owner FROM shoal.run r WHERE r.id = lost.run;
        IF owner.id IS NULL THEN  -- purged while they were being claimed
            DELETE FROM shoal.lease l WHERE l.task = ANY (lost.tasks);
            CONTINUE;
        END IF;
        SELECT * INTO ended FROM shoal.finish(owner, lost.tasks, lost.tokens, lost.codes, lost.never, lost.errors, lost.never, lost.never, lost.none, lost.none);
        freed := freed || ended.freed;
        host_queues := shoal.both(host_queues, ended.host_queues);
        total := total + cardinality(ended.accepted);
        seen := least(seen, lost.first);
    END LOOP;
END $$;

-- The reclaim of expired leases in a call of its own: claims do it, too.
CREATE OR REPLACE FUNCTION shoal.reclaim(p_call uuid, p_again boolean, p_limit int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    earlier_result bigint[] := shoal.answered(p_call, p_again);
    lost record;
BEGIN
    IF earlier_result IS NOT NULL THEN
        RETURN earlier_result[1];
    END IF;
    SELECT * INTO lost FROM shoal.take_back('-infinity', p_limit);
    PERFORM shoal.arm(lost.host_queues);
    PERFORM shoal.wake(lost.freed);
    IF lost.total > 0 THEN
        INSERT INTO shoal.receipt VALUES (p_call, clock_timestamp(), ARRAY[lost.total]);
    END IF;
    RETURN lost.total;
END $$;
