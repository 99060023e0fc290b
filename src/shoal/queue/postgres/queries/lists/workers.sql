-- The workers of one run or of all, with their leases and counters. The caller folds first.
SELECT w.worker_id, r.run_id, w.state, w.info, clock_timestamp() - w.beat_at AS last_beat,
       coalesce(max(held.count), 0) AS leased,
       coalesce(sum(t.count) FILTER (WHERE t.kind = 3), 0)::bigint AS completed,
       coalesce(sum(t.count) FILTER (WHERE t.kind = 9), 0)::bigint AS failed,
       coalesce(sum(t.count) FILTER (WHERE t.kind = 7), 0)::bigint AS items
FROM shoal.worker w
JOIN shoal.run r ON r.id = w.run
LEFT JOIN (SELECT worker, run, count(*) AS count FROM shoal.lease GROUP BY 1, 2) held ON held.worker = w.worker_id AND held.run = w.run
LEFT JOIN shoal.worker_tally t ON t.run = w.run AND t.worker = w.worker_id
WHERE $1::text IS NULL OR r.run_id = $1
GROUP BY w.worker_id, r.run_id, w.state, w.info, w.beat_at, w.run
ORDER BY w.worker_id
