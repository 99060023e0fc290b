-- Host limits set by an operator.

CREATE OR REPLACE FUNCTION shoal.pause_host(p_host text, p_duration interval) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    ids int[] := shoal.host_ids(ARRAY[p_host]);
BEGIN
    UPDATE shoal.host
    SET paused_until = CASE WHEN p_duration > interval '0' THEN greatest(paused_until, clock_timestamp() + p_duration) ELSE '-infinity' END
    WHERE id = ids[1];
    PERFORM shoal.wake(ids);
END $$;

CREATE OR REPLACE FUNCTION shoal.slow_host(p_host text, p_delay interval) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    ids int[] := shoal.host_ids(ARRAY[p_host]);
BEGIN
    UPDATE shoal.host SET delay = p_delay, slowdown = '0' WHERE id = ids[1];
    PERFORM shoal.wake(ids);
END $$;

-- Plan a start on a host. Such a start is never given back, so no earlier one counts again.
CREATE OR REPLACE FUNCTION shoal.take_turn(p_host text, p_gap interval) RETURNS interval
LANGUAGE plpgsql AS $$
DECLARE
    ids     int[] := shoal.host_ids(ARRAY[p_host]);
    planned timestamptz;
BEGIN
    UPDATE shoal.host
    SET last_at = greatest(clock_timestamp(), last_at + greatest(p_gap, last_gap, delay, slowdown)), last_gap = p_gap,
        earlier_at = '{}', earlier_gap = '{}'
    WHERE id = ids[1] RETURNING last_at INTO planned;
    RETURN greatest(planned - clock_timestamp(), interval '0');
END $$;
