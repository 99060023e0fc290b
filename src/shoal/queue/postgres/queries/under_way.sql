-- Those of some transactions that have not come to an end.
SELECT DISTINCT virtualtransaction FROM pg_locks WHERE locktype = 'advisory' AND virtualtransaction = ANY ($1::text[])
