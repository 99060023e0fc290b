-- The last id assigned by sequence $2, and the transactions that may still store rows of run $1 with lower ids.
-- A storing transaction holds the lock of the run from before it gets its ids until its rows are visible. The locks are read
-- after the sequence, because the sub-select refers to `drawn`: a transaction that takes the lock later gets higher ids.
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
