-- Lanes are woken by whoever gives them work or frees their host. Rows are locked in one order everywhere, and once in a transaction,
-- so that two calls never wait for each other.

CREATE OR REPLACE FUNCTION shoal.both(a shoal.lanes, b shoal.lanes) RETURNS shoal.lanes
LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW((a).runs || (b).runs, (a).hosts || (b).hosts, (a).sections || (b).sections, (a).shards || (b).shards, (a).bands || (b).bands)::shoal.lanes
$$;

-- Make the lanes due that have just been given tasks. Nothing is ever made due in the past: a claimer may have looked there already.
-- A lane that is due already, and not about to be closed, is not written: a busy lane is no hot row. One that is written is due now, even if only its band rises:
-- whoever opens its host's gate in the meantime passes over it, for it is locked here.
CREATE OR REPLACE FUNCTION shoal.arm(p_lanes shoal.lanes) RETURNS void
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    p_hosts int[] := p_lanes.hosts; p_sections int[] := p_lanes.sections; p_shards smallint[] := p_lanes.shards; p_bands smallint[] := p_lanes.bands;
BEGIN
    IF p_hosts IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO shoal.lane (host, section, shard, run, band, due_at)
    SELECT n.host, n.section, n.shard, n.run, max(n.band), clock_timestamp()
    FROM unnest(p_lanes.runs, p_hosts, p_sections, p_shards, p_bands) AS n(run, host, section, shard, band)
    LEFT JOIN LATERAL (
        SELECT true AS known FROM shoal.lane l
        WHERE l.host = n.host AND l.section = n.section AND l.shard = n.shard OFFSET 0
    ) l ON true
    WHERE l.known IS NULL
    GROUP BY n.host, n.section, n.shard, n.run
    ORDER BY n.host, n.section, n.shard
    ON CONFLICT DO NOTHING;

    -- Two statements: the lanes are locked in order, then written.
    PERFORM 1 FROM shoal.lane l
    JOIN (
        SELECT n.host, n.section, n.shard, max(n.band) AS band
        FROM unnest(p_hosts, p_sections, p_shards, p_bands) AS n(host, section, shard, band)
        GROUP BY 1, 2, 3
    ) n USING (host, section, shard)
    WHERE l.host = ANY (p_hosts) AND l.section = ANY (p_sections)
      AND (l.due_at IS NULL OR l.idle IS NOT NULL OR l.band < n.band)
    ORDER BY l.host, l.section, l.shard
    FOR NO KEY UPDATE OF l;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    UPDATE shoal.lane l
    SET band = CASE WHEN l.due_at IS NULL OR l.idle IS NOT NULL THEN n.band ELSE greatest(l.band, n.band) END,
        due_at = clock_timestamp(),
        idle = NULL
    FROM (
        SELECT n.host, n.section, n.shard, max(n.band) AS band
        FROM unnest(p_hosts, p_sections, p_shards, p_bands) AS n(host, section, shard, band)
        GROUP BY 1, 2, 3
    ) n
    WHERE l.host = n.host AND l.section = n.section AND l.shard = n.shard
      AND l.host = ANY (p_hosts) AND l.section = ANY (p_sections)
      AND (l.due_at IS NULL OR l.idle IS NOT NULL OR l.band < n.band);
END $$;

-- Bring forward the lanes that wait longer than their host's gate now asks for: a lease of the host has ended, or its gate was changed.
-- A lane that another holds is passed over: a claimer is rescheduling it anyway, and waiting for it could end in a circle.
CREATE OR REPLACE FUNCTION shoal.wake(p_hosts int[]) RETURNS void
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    ts    timestamptz := clock_timestamp();
    woken tid[];
BEGIN
    IF p_hosts IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(w.place) INTO woken FROM (
        SELECT l.ctid AS place FROM shoal.lane l
        JOIN (SELECT * FROM shoal.host WHERE id = ANY (p_hosts)) h ON h.id = l.host
        JOIN (SELECT * FROM shoal.run) r ON r.id = l.run
        WHERE l.host = ANY (p_hosts) AND l.idle IS NULL
          AND l.due_at > greatest(ts, h.paused_until, h.last_at + greatest(h.last_gap, h.delay, r.host_delay))
        FOR NO KEY UPDATE OF l SKIP LOCKED
    ) w;
    IF woken IS NULL THEN
        RETURN;
    END IF;
    UPDATE shoal.lane l
    SET due_at = greatest(ts, h.paused_until, h.last_at + greatest(h.last_gap, h.delay, r.host_delay))
    FROM (SELECT * FROM shoal.host WHERE id = ANY (p_hosts)) h, (SELECT * FROM shoal.run) r
    WHERE l.ctid = ANY (woken) AND h.id = l.host AND r.id = l.run;
END $$;
