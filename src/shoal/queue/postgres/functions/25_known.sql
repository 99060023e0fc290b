-- Which of some tasks may enter a run with `dedup`: those that no other run of its scraper has queued; from now on this run has. Only those of
-- accepted outcomes are considered. Returns for each task the outcome (p_of; 1 if there is none) if it may enter, else 0, and how many are known.
-- A task that is already in the run may enter: `put` finds that it is a duplicate.

CREATE OR REPLACE FUNCTION shoal.leave_out_known(
    p_run shoal.run, p_ids bytea[], p_keys bytea[], p_of int[], p_accepted bigint[], OUT of int[], OUT known int
)
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    ts    timestamptz := clock_timestamp();
    fresh bytea[];
BEGIN
    -- In key order: two producers with the same keys then wait for each other, but never deadlock. The one that waits sees what the other did.
    WITH noted AS (
        INSERT INTO shoal.dedup AS k (scraper, key, until)
        SELECT DISTINCT p_run.scraper, t.key, ts + p_run.dedup
        FROM unnest(p_ids, p_keys, p_of) AS t(id, key, of)
        LEFT JOIN LATERAL (SELECT true AS entered FROM shoal.task WHERE task.id = t.id OFFSET 0) x ON true
        WHERE t.key IS NOT NULL AND (p_accepted IS NULL OR t.of = ANY (p_accepted)) AND x.entered IS NULL
        ORDER BY t.key
        ON CONFLICT (scraper, key) DO UPDATE SET until = excluded.until WHERE k.until <= ts
        RETURNING k.key
    )
    SELECT coalesce(array_agg(noted.key), '{}') INTO fresh FROM noted;

    -- A separate statement, which sees what has been committed meanwhile: a key that another call of this run has queued is a duplicate.
    SELECT array_agg(CASE WHEN t.is_known THEN 0 ELSE coalesce(t.of, 1) END ORDER BY t.ord), count(*) FILTER (WHERE t.is_known)
    INTO leave_out_known.of, leave_out_known.known
    FROM (
        SELECT t.of, t.ord,
               t.key IS NOT NULL AND (p_accepted IS NULL OR t.of = ANY (p_accepted)) AND f.key IS NULL
               AND x.entered IS NULL AS is_known
        FROM unnest(p_ids, p_keys, p_of) WITH ORDINALITY AS t(id, key, of, ord)
        LEFT JOIN unnest(fresh) AS f(key) ON f.key = t.key
        LEFT JOIN LATERAL (SELECT true AS entered FROM shoal.task WHERE task.id = t.id OFFSET 0) x ON true
    ) t;
END $$;

-- Delete a batch of expired keys. Returns their number.
CREATE OR REPLACE FUNCTION shoal.expire_known(p_limit int) RETURNS int
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    old tid[];
BEGIN
    SELECT array_agg(k.ctid) INTO old FROM (
        SELECT ctid FROM shoal.dedup WHERE until <= clock_timestamp() ORDER BY until LIMIT p_limit FOR UPDATE SKIP LOCKED
    ) k;
    DELETE FROM shoal.dedup WHERE ctid = ANY (old);
    RETURN coalesce(cardinality(old), 0);
END $$;
