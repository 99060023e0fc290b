-- The number of blocks of a table.
SELECT (pg_relation_size('shoal.purge_table') / current_setting('block_size')::int)::int + 1
