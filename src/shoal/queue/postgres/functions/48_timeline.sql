-- A standby that is promoted has a new timeline, and may have missed the last moments of the primary: which hosts got requests in them is lost. A claim that
-- sees the new timeline stores when, and then each host rests as if it had just been given all the starts that a worker may hold.
--
-- The sequence of tokens has gone back too. It goes on at the microseconds of the clock, which no sequence reaches that rises by one per claim: so no token
-- is given a second time, and a lease of the lost moments is refused.

-- Some services do not tell the timeline: then there is none, and no rest.
CREATE OR REPLACE FUNCTION shoal.server_timeline() RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END;
EXCEPTION WHEN OTHERS THEN
    RETURN '';
END $$;

-- Return when the last change was seen, -infinity if none was.
CREATE OR REPLACE FUNCTION shoal.promoted_at() RETURNS timestamptz
LANGUAGE plpgsql AS $$
DECLARE
    name_now text := shoal.server_timeline();
    known shoal.timeline;
BEGIN
    SELECT * INTO known FROM shoal.timeline;
    IF name_now NOT IN ('', known.name) THEN
        UPDATE shoal.timeline SET name = name_now, since = CASE WHEN name = '' THEN since ELSE clock_timestamp() END WHERE name <> name_now;
        IF FOUND AND known.name <> '' THEN
            PERFORM setval('shoal.token_seq', greatest(nextval('shoal.token_seq'), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint));
        END IF;
        SELECT * INTO known FROM shoal.timeline;
    END IF;
    RETURN known.since;
END $$;
