-- Make a run unknown, free its hosts, and delete what waits. Hosts stay: their limits are shared by all runs. A run that does not exist is no error.
-- The client then deletes the other rows in batches (purge.py), because a long transaction would make every claim slower.

CREATE OR REPLACE FUNCTION shoal.purge(p_run_id text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    run   shoal.run;
    freed int[];
BEGIN
    SELECT * INTO run FROM shoal.run r WHERE r.run_id = p_run_id;
    IF run.id IS NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('shoal.run'), run.id);
    DELETE FROM shoal.run r WHERE r.id = run.id;
    INSERT INTO shoal.purged (run) VALUES (run.id) ON CONFLICT DO NOTHING;
    SELECT array_agg(DISTINCT l.host) INTO freed FROM shoal.lease l WHERE l.run = run.id AND l.host <> 0;
    DELETE FROM shoal.lease t WHERE t.run = run.id;
    -- In the order in which time moves tasks: the deletion waits for a running sweep where it takes tasks, and finds its work where it puts them.
    DELETE FROM shoal.delayed t WHERE t.run = run.id;
    DELETE FROM shoal.bundle t WHERE t.run = run.id;
    DELETE FROM shoal.host_queue t WHERE t.run = run.id;
    PERFORM shoal.wake(freed);
END $$;

-- The last part of a purge: tables with few rows of a run.
CREATE OR REPLACE FUNCTION shoal.purge_rest(p_run int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM shoal.step_group t WHERE t.run = p_run;
    DELETE FROM shoal.delta t WHERE t.run = p_run;
    DELETE FROM shoal.step_group_counters t WHERE t.run = p_run;
    DELETE FROM shoal.host_counters t WHERE t.run = p_run;
    DELETE FROM shoal.worker_counters t WHERE t.run = p_run;
    DELETE FROM shoal.worker t WHERE t.run = p_run;
    DELETE FROM shoal.purged t WHERE t.run = p_run;
END $$;
