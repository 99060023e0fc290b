-- A page of dead letters behind id $2, each with the history of its attempts.
SELECT d.id, d.task, d.attempts, d.error, d.buried_at,
       t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay, s.step, s.partition,
       history.*
FROM shoal.run r
JOIN shoal.dead d ON d.run = r.id AND d.id > $2
JOIN shoal.task t ON t.id = d.task
JOIN shoal.section s ON s.id = t.section
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(a.attempt ORDER BY a.token), '{}') AS h_attempts,
           coalesce(array_agg(a.worker ORDER BY a.token), '{}') AS h_workers,
           coalesce(array_agg(a.error ORDER BY a.token), '{}') AS h_errors,
           coalesce(array_agg(a.ended_at ORDER BY a.token), '{}') AS h_ended
    FROM shoal.attempt a WHERE a.task = d.task AND a.outcome IN ('R', 'B', 'L')
) history
WHERE r.run_id = $1
  AND ($4::text IS NULL OR s.step = $4) AND ($5::text IS NULL OR s.partition = $5)
  AND ($6::text IS NULL OR d.host = (SELECT h.id FROM shoal.host h WHERE h.name = $6))
  AND ($7::text IS NULL OR strpos(d.error, $7) > 0)
  AND ($8::timestamptz IS NULL OR d.buried_at < $8) AND ($9::timestamptz IS NULL OR d.buried_at > $9)
ORDER BY d.id
LIMIT $3
