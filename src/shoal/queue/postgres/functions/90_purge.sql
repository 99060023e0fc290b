-- Delete a run and everything that belongs to it. Hosts stay: their limits are shared by all runs. A run that does not exist is no error.

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
    SELECT array_agg(DISTINCT l.host) INTO freed FROM shoal.lease l WHERE l.run = run.id AND l.host <> 0;
    DELETE FROM shoal.lease t WHERE t.run = run.id;
    -- In the order in which time moves tasks: the deletion waits for a running sweep where it takes tasks, and finds its work where it puts them.
    DELETE FROM shoal.delayed t WHERE t.run = run.id;
    DELETE FROM shoal.bundle t WHERE t.run = run.id;
    DELETE FROM shoal.lane t WHERE t.run = run.id;
    DELETE FROM shoal.item t WHERE t.run = run.id;
    DELETE FROM shoal.reject t WHERE t.run = run.id;
    DELETE FROM shoal.dead t WHERE t.run = run.id;
    DELETE FROM shoal.expired t WHERE t.run = run.id;
    DELETE FROM shoal.dropped t WHERE t.run = run.id;
    DELETE FROM shoal.attempt t WHERE t.run = run.id;
    DELETE FROM shoal.done t WHERE t.run = run.id;
    DELETE FROM shoal.task t WHERE t.run = run.id;
    DELETE FROM shoal.section t WHERE t.run = run.id;
    DELETE FROM shoal.delta t WHERE t.run = run.id;
    DELETE FROM shoal.section_tally t WHERE t.run = run.id;
    DELETE FROM shoal.host_tally t WHERE t.run = run.id;
    DELETE FROM shoal.worker_tally t WHERE t.run = run.id;
    DELETE FROM shoal.worker t WHERE t.run = run.id;
    PERFORM shoal.wake(freed);
END $$;
