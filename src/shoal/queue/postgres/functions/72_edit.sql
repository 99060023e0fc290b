-- Replace the tasks of dead letters, one after the other. A letter must still be as it was read: buried at the same time, with as many entries in its
-- history, which every edit adds to. Returns for each: 0 edited, 1 the run has a task with the new key, 2 changed since it was read.

CREATE OR REPLACE FUNCTION shoal.edit_dead(
    p_call uuid, p_again boolean, p_run_id text, p_old bytea[], p_buried timestamptz[], p_history int[], p_by text[], p_notes text[],
    p_hosts text[], p_steps text[], p_partitions text[], p_bands int[],
    p_ids bytea[], p_host int[], p_step_group int[], p_priority smallint[], p_depth int[],
    p_ttl interval[], p_delay interval[], p_url text[], p_key text[], p_payload text[]
) RETURNS int[]
LANGUAGE plpgsql AS $$
DECLARE
    earlier_result bigint[] := shoal.answered(p_call, p_again);
    ts       timestamptz := clock_timestamp();
    run      shoal.run;
    hosts    int[];
    step_groups int[];
    old      shoal.dead;
    fates    int[] := '{}';
    new_host    int;
    new_step_group int;
BEGIN
    IF earlier_result IS NOT NULL THEN
        RETURN earlier_result::int[];
    END IF;
    run := shoal.known_run(p_run_id);
    hosts := shoal.host_ids(p_hosts);
    step_groups := shoal.step_group_ids(run.id, p_steps, p_partitions, p_bands);
    FOR i IN 1 .. cardinality(p_old) LOOP
        SELECT * INTO old FROM shoal.dead d WHERE d.run = run.id AND d.task = p_old[i] FOR UPDATE;
        IF old.id IS NULL OR old.buried_at <> p_buried[i] OR p_history[i] <> (
            SELECT count(*) FROM shoal.attempt a WHERE a.task = p_old[i] AND a.outcome IN ('R', 'B', 'L', 'E')
        ) THEN
            fates := fates || 2;
            CONTINUE;
        END IF;
        new_host := hosts[p_host[i]];
        new_step_group := step_groups[p_step_group[i]];
        IF p_ids[i] = p_old[i] THEN
            UPDATE shoal.task t SET step_group = new_step_group, host = new_host, priority = p_priority[i],
                url = p_url[i], key = p_key[i], payload = p_payload[i] WHERE t.id = p_old[i];
        ELSE
            INSERT INTO shoal.task (id, run, step_group, host, priority, depth, ttl, delay, url, key, payload)
            VALUES (p_ids[i], run.id, new_step_group, new_host, p_priority[i], p_depth[i], p_ttl[i], p_delay[i], p_url[i], p_key[i], p_payload[i])
            ON CONFLICT (id) DO NOTHING;
            IF NOT FOUND THEN
                fates := fates || 1;
                CONTINUE;
            END IF;
            UPDATE shoal.attempt a SET task = p_ids[i] WHERE a.task = p_old[i];
            DELETE FROM shoal.task t WHERE t.id = p_old[i];
        END IF;
        UPDATE shoal.dead d SET task = p_ids[i], step_group = new_step_group, host = new_host,
            shard = CASE WHEN new_host = 0 THEN get_byte(p_ids[i], 15) & 7 ELSE 0 END
        WHERE d.run = run.id AND d.id = old.id;
        INSERT INTO shoal.attempt (task, token, run, attempt, outcome, start_at, ended_at, worker, error)
        VALUES (p_ids[i], nextval('shoal.token_seq'), run.id, 0, 'E', ts, ts, p_by[i], p_notes[i]);
        INSERT INTO shoal.delta (run, step_groups, hosts, kinds, counts)
        VALUES (run.id, ARRAY[old.step_group, new_step_group], ARRAY[old.host, new_host], ARRAY[4, 4]::smallint[], ARRAY[-1, 1]);
        fates := fates || 0;
    END LOOP;
    INSERT INTO shoal.receipt VALUES (p_call, ts, fates);
    RETURN fates;
END $$;
