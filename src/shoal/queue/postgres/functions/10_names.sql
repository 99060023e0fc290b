-- From names to numbers: hosts and step groups are created when they are first seen.
-- Reading first keeps the usual call, where all are known, free of writes.

CREATE OR REPLACE FUNCTION shoal.host_ids(p_names text[]) RETURNS int[]
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    found int[];
BEGIN
    LOOP
        SELECT array_agg(h.id ORDER BY n.ord) INTO found
        FROM unnest(p_names) WITH ORDINALITY AS n(name, ord)
        LEFT JOIN LATERAL (SELECT id FROM shoal.host WHERE host.name = n.name OFFSET 0) h ON true;
        EXIT WHEN array_position(found, NULL) IS NULL;
        INSERT INTO shoal.host (name)
        SELECT n.name FROM unnest(p_names) AS n(name)
        WHERE NOT EXISTS (SELECT 1 FROM shoal.host h WHERE h.name = n.name)
        ORDER BY n.name
        ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN found;
END $$;

CREATE OR REPLACE FUNCTION shoal.step_group_ids(p_run int, p_steps text[], p_partitions text[], p_bands int[]) RETURNS int[]
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    found int[];
BEGIN
    LOOP
        SELECT array_agg(s.id ORDER BY n.ord) INTO found
        FROM unnest(p_steps, p_partitions, p_bands) WITH ORDINALITY AS n(step, partition, bands, ord)
        LEFT JOIN LATERAL (
            SELECT id FROM shoal.step_group s
            WHERE s.run = p_run AND s.step = n.step AND s.partition = n.partition AND s.bands & n.bands = n.bands
            OFFSET 0
        ) s ON true;
        EXIT WHEN array_position(found, NULL) IS NULL;
        INSERT INTO shoal.step_group (run, step, partition, bands)
        SELECT p_run, n.step, n.partition, n.bands
        FROM unnest(p_steps, p_partitions, p_bands) AS n(step, partition, bands)
        ORDER BY n.step, n.partition
        ON CONFLICT (run, step, partition) DO UPDATE SET bands = step_group.bands | excluded.bands
        WHERE step_group.bands & excluded.bands <> excluded.bands;
    END LOOP;
    RETURN found;
END $$;

-- A run, NULL if there is none. It exists until the call ends: a purge waits for that, and a call that waits for a purge finds it gone.
CREATE OR REPLACE FUNCTION shoal.run_named(p_run_id text) RETURNS shoal.run
LANGUAGE plpgsql AS $$
DECLARE
    found shoal.run;
BEGIN
    SELECT * INTO found FROM shoal.run WHERE run_id = p_run_id;
    PERFORM pg_advisory_xact_lock_shared(hashtext('shoal.run'), found.id);
    SELECT * INTO found FROM shoal.run WHERE run_id = p_run_id;
    RETURN found;
END $$;

-- A run, or the error that the client translates to UnknownRun.
CREATE OR REPLACE FUNCTION shoal.known_run(p_run_id text) RETURNS shoal.run
LANGUAGE plpgsql AS $$
DECLARE
    found shoal.run := shoal.run_named(p_run_id);
BEGIN
    IF found.id IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SH001', MESSAGE = p_run_id;
    END IF;
    RETURN found;
END $$;

-- The result of an earlier attempt of this call, NULL if there is none. The lock makes a second attempt wait for the end of the first, which may
-- still be running on a connection that its caller has lost.
CREATE OR REPLACE FUNCTION shoal.answered(p_call uuid, p_again boolean) RETURNS bigint[]
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_call::text, 0));
    IF p_again THEN
        RETURN (SELECT reply FROM shoal.receipt WHERE call = p_call);
    END IF;
    RETURN NULL;
END $$;
