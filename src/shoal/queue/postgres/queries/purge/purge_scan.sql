-- Delete the rows of run $1 from some blocks of a table without an index on the run.
DELETE FROM shoal.purge_table t WHERE t.ctid >= $2::text::tid AND t.ctid < $3::text::tid AND t.run = $1
