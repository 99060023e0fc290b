-- How far the ids of sequence $2 have been drawn, and which transactions may still store things of run $1 below that.
-- Who stores holds the lock of the run from before it draws its ids until what it stored can be seen. The locks are looked at
-- behind the sequence, for the sub-select asks for `drawn`: who takes the lock later draws higher ids.
SELECT drawn, ARRAY(
    SELECT virtualtransaction FROM pg_locks
    WHERE drawn > 0 AND locktype = 'advisory' AND granted AND pid <> pg_backend_pid()
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND classid = hashtext('shoal.run')::oid AND objid = known.id::oid AND objsubid = 2
) AS storing
FROM (
    SELECT id, coalesce(pg_sequence_last_value($2::text::regclass), 0) AS drawn
    FROM shoal.run WHERE run_id = $1
) known
