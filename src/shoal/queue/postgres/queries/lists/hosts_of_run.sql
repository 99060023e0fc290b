-- A page of one run's hosts after id $1, with their counts in it. The caller folds first.
SELECT h.id, h.name, greatest(h.delay, h.slowdown) AS delay, coalesce(nullif(h.paused_until, '-infinity') - clock_timestamp(), interval '0') AS paused_for,
       tally.kinds, tally.counts
FROM (
    SELECT t.host, array_agg(t.kind) AS kinds, array_agg(t.count) AS counts
    FROM shoal.host_tally t
    WHERE t.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $3) AND t.host > $1
    GROUP BY t.host ORDER BY t.host LIMIT $2
) tally
JOIN shoal.host h ON h.id = tally.host
ORDER BY h.id
