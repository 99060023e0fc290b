-- Lease tasks whose hosts may get a request now, by the rate limit and the concurrency (per_host) of each.
--
-- A fence is a note: nothing is leased unless it has this stamp, and it keeps it until the leases are committed.
--
-- 0. Apply the changes caused by time: reclaim lost (expired) leases, promote delayed tasks, expire old ones, close empty host queues (see 46_closing.sql).
-- 1. Lock host queues that are due, then their hosts, skipping those that another claimer holds: a claimer never waits.
-- 2. Only then, in separate statements and so with newer snapshots, count the leases of those hosts and take tasks from the bundles. One statement
-- that locks and counts would count in its initial snapshot, and exceed the limit of a host.
-- 3. Reschedule every host queue that was read to the time when the next check is worthwhile: a blocked host is read once, not at every claim.
--
-- Floors. Host queues leave the due index on the left and come back on the right. The entries they leave are dead, but while an old transaction is open,
-- vacuum cannot remove them. So the caller remembers, for each (step group, band), a time before which it found nothing, and passes it back.
--
--
-- Lead. A claim with a lead takes what it would take that much later, and so are its starts. The caller adds the lead to each `start_in`.
--
-- Receipts. A claim that found something stores one, so that it can be repeated. A claim that found nothing stores one only if it is a retry:
-- its first attempt may still arrive, must not lease tasks that nobody will receive, and fails at the receipt. An empty receipt is a result, for the same reason.

CREATE OR REPLACE FUNCTION shoal.claim(
    p_call uuid, p_again boolean, p_run_id text, p_worker text, p_limit int, p_lease interval, p_horizon interval,
    p_steps text[], p_partitions text[], p_floor_keys bigint[], p_floors timestamptz[],
    p_fence_topic text DEFAULT NULL, p_fence_place bytea DEFAULT NULL, p_fence_stamp bigint DEFAULT NULL,
    p_lead interval DEFAULT interval '0'
) RETURNS TABLE (
    task bytea, token bigint, attempt smallint, start_in interval, step text, partition text, priority smallint,
    depth int, ttl interval, delay interval, url text, key text, payload text,
    next_due interval, drained boolean, floor_keys bigint[], floors timestamptz[], claimed_at timestamptz,
    outdated boolean, slowdown interval
)
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    earlier_result   bigint[] := shoal.answered(p_call, p_again);
    run    shoal.run := shoal.known_run(p_run_id);
    began  timestamptz := clock_timestamp();
    before pg_snapshot := pg_current_snapshot();  -- taken before this call has an id
    me     bigint;                  -- its id
    ts     timestamptz;
    first  timestamptz;             -- of the first round
    wanted int := p_limit;          -- tasks still to find
    share  int;                     -- tasks one host queue is expected to give
    rounds int := 0;
    host_queues  int;                     -- host queues to read in this round
    top    smallint;                -- the band they are in
    -- The due lists to search: pairs of a step group and a band, the highest band first.
    t_step_group int[]; t_band smallint[]; t_key bigint[]; t_floor timestamptz[];
    is_due boolean;                 -- whether time alone has changed anything
    is_idle boolean;                -- whether an empty host queue is to be checked
    lost   record;
    late   record;
    t_lost timestamptz; t_later timestamptz; t_idle timestamptz;  -- floors of the lost leases, of the delayed tasks and of the empty host queues
    -- Host queues picked in a round.
    l_host int[]; l_step_group int[]; l_shard smallint[];
    s_host int[]; s_shard smallint[]; s_first timestamptz;
    -- Their hosts, as they are once locked.
    h_id int[]; h_gap interval[]; h_slow interval[]; h_free timestamptz[]; h_floor bigint[];
    h_live int[]; h_low bigint[]; h_poll interval[];
    swept  int := 0;
    awaited timestamptz;            -- when the first delayed task is due, or the first lease may be lost
    promoted timestamptz;           -- when the server was seen to have replaced another
    round_token  bigint;
    round_tokens bigint[] := '{}';
    g_task bytea[] := '{}'; g_token bigint[] := '{}'; g_attempt smallint[] := '{}'; g_start interval[] := '{}'; g_slow interval[] := '{}';
    n_task bytea[]; n_attempt smallint[]; n_start interval[]; n_slow interval[]; n_host int[]; n_step_group int[]; n_turn int[];
BEGIN
    -- The note of a repeated claim was checked by its first attempt.
    IF earlier_result IS NULL AND p_fence_topic IS NOT NULL AND NOT shoal.note_stands(p_fence_topic, p_fence_place, p_fence_stamp) THEN
        IF p_again THEN
            INSERT INTO shoal.receipt VALUES (p_call, clock_timestamp(), round_tokens);
        END IF;
        drained := false;
        outdated := true;
        RETURN NEXT;
        RETURN;
    END IF;
    IF earlier_result IS NOT NULL THEN
        -- The lease counts from the attempt whose result arrives. The starts stay where they were, because others come after them: so the claim is reported
        -- to be as old as its first start, and the caller sees that this start has passed.
        WITH renewed AS (
            UPDATE shoal.lease l SET deadline = greatest(l.start_at, began) + p_lease
            WHERE l.token = ANY (earlier_result) AND l.worker = p_worker
            RETURNING l.task, l.token, l.attempt, l.start_at
        )
        SELECT array_agg(r.task), array_agg(r.token), array_agg(r.attempt), array_agg(r.start_at - r.base), min(r.base)
        INTO g_task, g_token, g_attempt, g_start, first
        FROM (SELECT *, least(began, min(start_at) OVER ()) AS base FROM renewed) r;
        wanted := p_limit - coalesce(cardinality(g_task), 0);
    ELSIF run.state = 'running' THEN
        t_lost := coalesce(p_floors[array_position(p_floor_keys, 1::bigint)], '-infinity');
        t_later := coalesce(p_floors[array_position(p_floor_keys, 0::bigint)], '-infinity');
        t_idle := coalesce(p_floors[array_position(p_floor_keys, 2::bigint)], '-infinity');
        -- Usually nothing of this kind is due, and one statement shows it.
        SELECT EXISTS (SELECT FROM shoal.lease l WHERE l.deadline > t_lost AND l.deadline <= began)
            OR EXISTS (SELECT FROM shoal.delayed d WHERE d.run = run.id AND d.due_at > t_later AND d.due_at <= began)
            OR EXISTS (SELECT FROM shoal.bundle b WHERE b.expires_at <= began)
            OR EXISTS (SELECT FROM shoal.delayed d WHERE d.expires_at <= began),
            EXISTS (SELECT FROM shoal.host_queue l WHERE l.run = run.id AND l.idle IS NOT NULL AND l.due_at > t_idle AND l.due_at <= began)
        INTO is_due, is_idle;
        IF is_due THEN
            SELECT * INTO lost FROM shoal.take_back(t_lost, 1000);
            SELECT * INTO late FROM shoal.promote(run.id, t_later, 1000);
            swept := shoal.expire(500);
            PERFORM shoal.arm(shoal.both(lost.host_queues, late.host_queues));
            PERFORM shoal.wake(lost.freed);
            t_lost := lost.seen - interval '1 second';
            t_later := late.seen - interval '1 second';
        ELSE
            t_lost := began - interval '1 second';
            t_later := t_lost;
        END IF;
        t_idle := CASE WHEN is_idle THEN shoal.close_host_queues(run.id, before, t_idle, 500) ELSE began END - interval '1 second';
        promoted := shoal.promoted_at();

        SELECT array_agg(k.step_group), array_agg(k.band), array_agg(k.key), array_agg(coalesce(p_floors[array_position(p_floor_keys, k.key)], '-infinity'))
        INTO t_step_group, t_band, t_key, t_floor
        FROM (
            SELECT s.id AS step_group, b.band::smallint AS band, s.id::bigint * 16 + b.band + 1 AS key
            FROM shoal.step_group s CROSS JOIN LATERAL generate_series(0, 9) AS b(band)
            WHERE s.run = run.id AND (s.bands >> b.band) & 1 = 1
              AND (p_steps IS NULL OR s.step = ANY (p_steps)) AND (p_partitions IS NULL OR s.partition = ANY (p_partitions))
            ORDER BY b.band DESC, random()
        ) k;
        -- Host queues of a run without a gap give several tasks at once; others as many as may start within the horizon.
        share := least(8, run.per_host, CASE WHEN run.host_delay > interval '0' THEN
                       greatest(1, ceil(extract(epoch FROM p_horizon) / extract(epoch FROM run.host_delay))) END);

        WHILE wanted > 0 AND t_step_group IS NOT NULL AND rounds < 50 LOOP
            rounds := rounds + 1;
            ts := clock_timestamp() + p_lead;
            first := coalesce(first, ts);
            -- Every host queue that is read is written. What the first round did not find is searched in more of them, but in at most twice as many.
            host_queues := CASE WHEN rounds = 1 THEN (wanted + share - 1) / share ELSE greatest(8, least(2 * host_queues, (wanted + share - 1) / share)) END;
            l_host := '{}'; l_step_group := '{}'; l_shard := '{}';
            FOR i IN 1 .. cardinality(t_step_group) LOOP
                SELECT array_agg(l.host), array_agg(l.shard), min(l.due_at) INTO s_host, s_shard, s_first
                FROM (
                    SELECT host, shard, due_at FROM shoal.host_queue
                    WHERE step_group = t_step_group[i] AND band = t_band[i] AND idle IS NULL AND due_at > t_floor[i] AND due_at <= ts
                    ORDER BY due_at LIMIT host_queues - cardinality(l_host)
                    FOR NO KEY UPDATE SKIP LOCKED
                ) l;
                IF coalesce(cardinality(s_host), 0) < host_queues - cardinality(l_host) THEN
                    s_first := ts - p_lead;
                END IF;
                t_floor[i] := greatest(t_floor[i], s_first - interval '1 second');
                IF s_host IS NOT NULL THEN
                    top := t_band[i];
                    l_host := l_host || s_host;
                    l_shard := l_shard || s_shard;
                    l_step_group := l_step_group || array_fill(t_step_group[i], ARRAY[cardinality(s_host)]);
                END IF;
                -- One band at a time: what is left of a higher band goes before anything of a lower one.
                EXIT WHEN cardinality(l_host) >= host_queues OR cardinality(l_host) > 0 AND t_band[i + 1] < t_band[i];
            END LOOP;
            EXIT WHEN cardinality(l_host) = 0;
            me := pg_current_xact_id()::text::bigint;

            -- The rate limit (rate_limit, DOWNLOAD_DELAY) of each host: its gap, and when it is free for the next start.
            SELECT array_agg(h.id), array_agg(h.gap), array_agg(h.slowdown), array_agg(h.lease_floor),
                   array_agg(greatest(h.paused_until, h.last_at + greatest(h.gap, h.last_gap), promoted + p_horizon + p_lead + h.gap))
            INTO h_id, h_gap, h_slow, h_floor, h_free
            FROM (
                SELECT id, greatest(delay, slowdown, run.host_delay) AS gap, slowdown, last_gap, paused_until, last_at, lease_floor
                FROM shoal.host WHERE id = ANY (l_host) AND id <> 0
                ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
            ) h;
            -- Assigned once the hosts are locked: the tokens of a host's leases then rise in the order of the claims.
            round_token := nextval('shoal.token_seq');

            SELECT array_agg(live.n), array_agg(live.low), array_agg(least(greatest(ts - live.oldest, interval '250 milliseconds'), interval '5 seconds'))
            INTO h_live, h_low, h_poll
            FROM unnest(h_id, h_floor) WITH ORDINALITY AS h(id, floor, ord)
            CROSS JOIN LATERAL (
                SELECT count(*)::int AS n, min(l.token) AS low, min(l.start_at) AS oldest
                FROM shoal.lease l WHERE l.host = h.id AND l.token >= h.floor
            ) live;

            -- What the rate limit and per_host of each host allow in this round.
            WITH host_limits AS (
                SELECT h.id AS host, CASE WHEN h.free > ts THEN 0 ELSE run.per_host - h.live END AS slots,
                       CASE WHEN h.gap > interval '0' THEN ceil(extract(epoch FROM p_horizon) / extract(epoch FROM h.gap))::int ELSE wanted END AS burst,
                       h.gap, h.slow
                FROM unnest(h_id, h_gap, h_slow, h_free, h_live) AS h(id, gap, slow, free, live)
                UNION ALL SELECT 0, wanted, wanted, interval '0', interval '0'
            ), open AS (
                SELECT p.*, g.gap, g.slow, least(g.slots, greatest(g.burst, 1)) AS room, count(*) OVER () AS rivals
                FROM unnest(l_host, l_step_group, l_shard) WITH ORDINALITY AS p(host, step_group, shard, ord) JOIN host_limits g USING (host)
                -- The first host queue of each host; all of those without one.
                WHERE g.slots > 0 AND (p.host = 0 OR p.ord = array_position(l_host, p.host))
            ), quota AS (
                SELECT o.*, least(o.room, (wanted + o.rivals - 1) / o.rivals)::int AS quota FROM open o
            ), allowed AS (
                SELECT q.*, least(q.quota, wanted - coalesce(sum(q.quota) OVER (ORDER BY q.ord ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0))::int AS most
                FROM quota q
            ), heads AS (
                SELECT a.host, a.step_group, a.shard, a.gap, a.slow, a.most, b.*,
                       coalesce(sum(b.size) OVER (PARTITION BY a.ord ORDER BY b.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::int AS before
                FROM allowed a
                CROSS JOIN LATERAL (
                    SELECT b.priority FROM shoal.bundle b
                    WHERE b.host = a.host AND b.step_group = a.step_group AND b.shard = a.shard AND (b.expires_at IS NULL OR b.expires_at > ts)
                    ORDER BY b.priority DESC LIMIT 1
                ) head
                CROSS JOIN LATERAL (
                    -- Of the highest priority only: another host queue of this host may hold the next one.
                    SELECT b.ctid AS place, b.seq, b.priority, b.attempt, b.expires_at, b.tasks, cardinality(b.tasks) AS size
                    FROM shoal.bundle b
                    WHERE b.host = a.host AND b.step_group = a.step_group AND b.shard = a.shard AND b.priority = head.priority
                      AND (b.expires_at IS NULL OR b.expires_at > ts)
                    ORDER BY b.seq LIMIT least(a.most, 8)
                ) b
                -- A host queue whose best tasks have expired is in too high a band: it is moved to a lower one, and waits for its turn there.
                WHERE a.most > 0 AND head.priority >= top
            ), emptied AS (
                DELETE FROM shoal.bundle WHERE ctid = ANY (ARRAY(SELECT place FROM heads WHERE before + size <= most)) RETURNING seq
            ), shortened AS (
                UPDATE shoal.bundle b SET tasks = b.tasks[h.most - h.before + 1 :]
                FROM heads h
                WHERE b.ctid = ANY (ARRAY(SELECT place FROM heads WHERE before < most AND before + size > most)) AND b.seq = h.seq
                RETURNING b.seq
            ), taken AS (
                -- `unnest` in the select list costs a third of a lateral join for each bundle.
                SELECT host, step_group, shard, priority, attempt, expires_at, id, (turn - 1) * gap AS start_in, gap, slow, turn
                FROM (
                    SELECT h.host, h.step_group, h.shard, h.priority, h.attempt, h.expires_at, h.gap, h.slow,
                           unnest(h.tasks[1 : h.most - h.before]) AS id, h.before + generate_series(1, least(h.size, h.most - h.before)) AS turn
                    FROM heads h JOIN (SELECT seq FROM emptied UNION ALL SELECT seq FROM shortened) mine USING (seq)
                ) t
            ), leased AS (
                INSERT INTO shoal.lease (task, token, run, step_group, host, shard, priority, attempt, start_at, deadline, expires_at, worker)
                SELECT id, round_token, run.id, step_group, host, shard, priority, attempt + 1, ts + start_in, ts + start_in + p_lease, expires_at, p_worker
                FROM taken
            )
            -- All durations of a result count from its first round, where a gap applies.
            SELECT array_agg(id), array_agg((attempt + 1)::smallint), array_agg(CASE WHEN gap > interval '0' THEN start_in + (ts - first) ELSE interval '0' END), array_agg(slow), array_agg(host), array_agg(step_group), array_agg(turn)
            INTO n_task, n_attempt, n_start, n_slow, n_host, n_step_group, n_turn
            FROM taken;

            share := greatest(1, coalesce(cardinality(n_task), 0) / cardinality(l_host));
            IF n_task IS NOT NULL THEN
                wanted := wanted - cardinality(n_task);
                round_tokens := round_tokens || round_token;
                g_task := g_task || n_task;
                g_attempt := g_attempt || n_attempt;
                g_start := g_start || n_start;
                g_slow := g_slow || n_slow;
                g_token := g_token || array_fill(round_token, ARRAY[cardinality(n_task)]);
            END IF;

            -- Count what was given, note the starts on the hosts, and reschedule the host queues. All their rows are locked.
            WITH given AS (
                SELECT host, step_group, count(*)::int AS n, max(turn) AS spent FROM unnest(n_host, n_step_group, n_turn) AS t(host, step_group, turn) GROUP BY 1, 2
            ), counted AS (
                INSERT INTO shoal.delta (run, worker, step_groups, hosts, kinds, counts)
                SELECT run.id, p_worker, array_agg(step_group) || array_agg(step_group), array_agg(host) || array_agg(host),
                       array_fill(0::smallint, ARRAY[count(*)::int]) || array_fill(2::smallint, ARRAY[count(*)::int]), array_agg(-n) || array_agg(n)
                FROM given HAVING count(*) > 0
            ), hosts AS (
                -- One host queue of a host gives tasks in a round. Starts are used: more than were granted if a bundle has expired in between.
                SELECT h.*, coalesce(g.n, 0) AS given, coalesce(g.spent, 0) AS spent
                FROM unnest(h_id, h_gap, h_free, h_live, h_low, h_poll) AS h(id, gap, free, live, low, poll)
                LEFT JOIN given g ON g.host = h.id
            ), started AS (
                UPDATE shoal.host h
                SET last_at = ts + (g.spent - 1) * g.gap, last_gap = run.host_delay, lease_floor = coalesce(g.low, round_token),
                    -- Only starts of live leases can be given back: so the latest start that cannot be given back is among the last as many as there were live
                    -- leases and one more, and all before it never count again. Without a gap, none is worth storing.
                    earlier_at = CASE WHEN g.gap = interval '0' THEN '{}' ELSE
                        (h.earlier_at || h.last_at)[greatest(1, cardinality(h.earlier_at) + 1 - g.live) :]
                        || ARRAY(SELECT ts + k * g.gap FROM generate_series(0, g.spent - 2) AS k) END,
                    earlier_gap = CASE WHEN g.gap = interval '0' THEN '{}' ELSE
                        (h.earlier_gap || h.last_gap)[greatest(1, cardinality(h.earlier_gap) + 1 - g.live) :]
                        || array_fill(run.host_delay, ARRAY[g.spent - 1]) END
                FROM hosts g
                WHERE h.id = ANY (h_id) AND h.id = g.id AND g.spent > 0
            ), looked AS (
                SELECT p.host, p.step_group, p.shard,
                       CASE WHEN p.host = 0 THEN ts
                            WHEN g.id IS NULL THEN ts + interval '10 milliseconds'
                            WHEN g.live + g.given >= run.per_host THEN greatest(g.next, ts + coalesce(g.poll, interval '250 milliseconds'))
                            ELSE g.next END AS next, best.priority AS best
                FROM unnest(l_host, l_step_group, l_shard) AS p(host, step_group, shard)
                LEFT JOIN (SELECT *, CASE WHEN spent > 0 THEN ts + spent * gap ELSE free END AS next FROM hosts) g ON g.id = p.host
                LEFT JOIN LATERAL (
                    SELECT b.priority FROM shoal.bundle b
                    WHERE b.host = p.host AND b.step_group = p.step_group AND b.shard = p.shard AND (b.expires_at IS NULL OR b.expires_at > ts)
                    ORDER BY b.priority DESC LIMIT 1
                ) best ON true
            )
            UPDATE shoal.host_queue l
            SET band = coalesce(k.best, l.band),
                due_at = CASE WHEN k.best IS NOT NULL THEN greatest(k.next, clock_timestamp()) ELSE shoal.first_check(ts) END,
                idle = CASE WHEN k.best IS NULL THEN -me END,
                waits = 0
            FROM looked k
            WHERE l.host = ANY (l_host) AND l.step_group = ANY (l_step_group)
              AND l.host = k.host AND l.step_group = k.step_group AND l.shard = k.shard;
        END LOOP;
    END IF;
    IF earlier_result IS NULL AND (p_again OR cardinality(round_tokens) > 0) THEN
        INSERT INTO shoal.receipt VALUES (p_call, clock_timestamp(), round_tokens);
    END IF;

    RETURN QUERY
        SELECT t.id, g.token, g.attempt, g.start_in, s.step, s.partition, t.priority,
               t.depth, t.ttl, t.delay, t.url, t.key, t.payload, NULL::interval, NULL::boolean, NULL::bigint[], NULL::timestamptz[], NULL::timestamptz, NULL::boolean, g.slow
        FROM unnest(g_task, g_token, g_attempt, g_start, g_slow) AS g(id, token, attempt, start_in, slow)
        CROSS JOIN LATERAL (SELECT * FROM shoal.task WHERE task.id = g.id OFFSET 0) t
        JOIN shoal.step_group s ON s.id = t.step_group
        WHERE s.run = run.id;

    SELECT NULL, run.state IN ('cancelled', 'partial') INTO next_due, drained;
    IF wanted = p_limit AND run.state = 'running' THEN
        -- A lease or a delayed task shows at once that there is work left; summing all deltas is only for the end of a run.
        SELECT least((SELECT d.due_at FROM shoal.delayed d WHERE d.run = run.id AND d.due_at > coalesce(t_later, '-infinity') ORDER BY d.due_at LIMIT 1),
                     (SELECT l.deadline FROM shoal.lease l WHERE l.run = run.id ORDER BY l.deadline LIMIT 1))
        INTO awaited;
        drained := awaited IS NULL AND shoal.remaining(run.id) = 0;
    END IF;
    IF wanted = p_limit AND run.state = 'running' AND NOT drained THEN
        SELECT least(awaited, min(l.due) - p_lead) - clock_timestamp() INTO next_due
        FROM unnest(t_step_group, t_band, t_floor) AS t(step_group, band, floor)
        CROSS JOIN LATERAL (
            SELECT due_at AS due FROM shoal.host_queue
            WHERE step_group = t.step_group AND band = t.band AND due_at > t.floor AND idle IS NULL
            ORDER BY due_at LIMIT 1
        ) l;
        -- What is due already is held by another claimer; a short wait keeps this one from spinning. Or there is more to expire, or nothing was searched at all.
        IF next_due < interval '5 milliseconds' OR swept >= 500 OR earlier_result IS NOT NULL THEN
            next_due := interval '5 milliseconds';
        END IF;
    END IF;
    task := NULL; token := NULL; attempt := NULL; start_in := NULL; step := NULL; partition := NULL; priority := NULL;
    depth := NULL; ttl := NULL; delay := NULL; url := NULL; key := NULL; payload := NULL;
    floor_keys := ARRAY[0, 1, 2]::bigint[] || t_key; floors := ARRAY[t_later, t_lost, t_idle] || t_floor;
    claimed_at := coalesce(first - p_lead, began);
    outdated := false;
    RETURN NEXT;
END $$;
