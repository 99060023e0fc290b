-- A standby that is promoted has a new timeline, and may have missed the last moments of the primary: which hosts got requests in them is lost. A claim that
-- sees the new timeline stores when, and then each host rests as if it had just been given all the starts that a worker may hold.

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
    found text := shoal.server_timeline();
    known shoal.timeline;
BEGIN
    SELECT * INTO known FROM shoal.timeline;
    IF found NOT IN ('', known.name) THEN
        UPDATE shoal.timeline SET name = found, since = CASE WHEN name = '' THEN since ELSE clock_timestamp() END WHERE name <> found;
        SELECT * INTO known FROM shoal.timeline;
    END IF;
    RETURN known.since;
END $$;
