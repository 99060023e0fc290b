-- Give back unused starts on a host: the one before then counts again. The first known start stays, because the one before it is unknown.
-- The caller has locked the host.
CREATE OR REPLACE FUNCTION shoal.give_back(p_host int, p_unused timestamptz[]) RETURNS void
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    starts timestamptz[];
    gaps   interval[];
    unused timestamptz;
    place  int;
BEGIN
    SELECT h.earlier_at || h.last_at, h.earlier_gap || h.last_gap INTO starts, gaps FROM shoal.host h WHERE h.id = p_host;
    FOREACH unused IN ARRAY p_unused LOOP
        place := array_position(starts[2:], unused) + 1;
        IF place IS NOT NULL THEN
            starts := starts[:place - 1] || starts[place + 1:];
            gaps := gaps[:place - 1] || gaps[place + 1:];
        END IF;
    END LOOP;
    UPDATE shoal.host h
    SET last_at = starts[cardinality(starts)], last_gap = gaps[cardinality(gaps)],
        earlier_at = trim_array(starts, 1), earlier_gap = trim_array(gaps, 1)
    WHERE h.id = p_host AND cardinality(h.earlier_at) >= cardinality(starts);
END $$;
