-- The transactions among these that have not ended.
SELECT DISTINCT virtualtransaction FROM pg_locks WHERE locktype = 'advisory' AND virtualtransaction = ANY ($1::text[])
