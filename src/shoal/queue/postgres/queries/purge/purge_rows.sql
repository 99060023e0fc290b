-- Delete up to $2 rows of run $1 from a table that is indexed by run and id; returns how many.
WITH gone AS (
    DELETE FROM shoal.purge_table t WHERE t.run = $1
      AND t.ctid = ANY (ARRAY(SELECT s.ctid FROM shoal.purge_table s WHERE s.run = $1 LIMIT $2))
    RETURNING 1
)
SELECT count(*) FROM gone
