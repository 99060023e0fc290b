-- shoal.promoted_at moves the tokens on after a promotion (see 48_timeline.sql). The timeline is known before the first claim, which a standby may miss; some
-- services do not tell it.
DO $$ BEGIN
    UPDATE shoal.timeline SET name = left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) WHERE name = '';
EXCEPTION WHEN OTHERS THEN
    NULL;
END $$;
