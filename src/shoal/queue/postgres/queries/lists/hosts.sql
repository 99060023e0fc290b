-- A page of all hosts after id $1, with their counts over all runs. The caller folds first, so that the totals are complete.
SELECT h.id, h.name, greatest(h.delay, h.slowdown) AS delay, coalesce(nullif(h.paused_until, '-infinity') - clock_timestamp(), interval '0') AS paused_for,
       tally.kinds, tally.counts
FROM (SELECT * FROM shoal.host WHERE id > $1 ORDER BY id LIMIT $2) h
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(t.kind), '{}') AS kinds, coalesce(array_agg(t.count), '{}') AS counts
    FROM shoal.host_tally t WHERE t.host = h.id
) tally
ORDER BY h.id
