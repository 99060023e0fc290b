-- A page of hosts behind id $2, with their counts in one run or in all. The caller folds first, so that the totals are whole.
SELECT h.id, h.name, h.delay, coalesce(nullif(h.paused_until, '-infinity') - clock_timestamp(), interval '0') AS paused_for,
       tally.kinds, tally.counts
FROM shoal.host h
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(t.kind), '{}') AS kinds, coalesce(array_agg(t.count), '{}') AS counts
    FROM shoal.host_tally t
    WHERE t.host = h.id AND ($1::text IS NULL OR t.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1))
) tally
WHERE h.id > $2 AND ($1::text IS NULL OR cardinality(tally.kinds) > 0)
ORDER BY h.id
LIMIT $3
