-- A page of dead letters after id $2, each with the history of its attempts. Letters that do not meet the conditions are skipped. The limit applies before
-- any join, and each row then looks up its own task, so that a page costs the same however many there are.
SELECT d.id, d.task, d.attempts, d.error, d.buried_at,
       t.url, t.key, t.payload, t.priority, t.depth, t.ttl, t.delay, s.step, s.partition,
       history.*
FROM (
    SELECT d.* FROM shoal.dead d
    WHERE d.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND d.id > $2
      AND ($4::text IS NULL OR d.section = ANY (ARRAY(SELECT s.id FROM shoal.section s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.step = $4)))
      AND ($5::text IS NULL OR d.section = ANY (ARRAY(SELECT s.id FROM shoal.section s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.partition = $5)))
      AND ($6::text IS NULL OR d.host = ANY (ARRAY(SELECT h.id FROM shoal.host h WHERE h.name = lower($6) OR starts_with(h.name, lower($6) || ':'))))
      AND ($7::text IS NULL OR strpos(d.error, $7) > 0)
      AND ($8::timestamptz IS NULL OR d.buried_at < $8) AND ($9::timestamptz IS NULL OR d.buried_at > $9)
    ORDER BY d.run, d.id
    LIMIT $3
) d
CROSS JOIN LATERAL (SELECT * FROM shoal.task WHERE id = d.task OFFSET 0) t
CROSS JOIN LATERAL (SELECT step, partition FROM shoal.section WHERE id = t.section OFFSET 0) s
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(a.attempt ORDER BY a.token), '{}') AS h_attempts,
           coalesce(array_agg(a.worker ORDER BY a.token), '{}') AS h_workers,
           coalesce(array_agg(a.error ORDER BY a.token), '{}') AS h_errors,
           coalesce(array_agg(a.ended_at ORDER BY a.token), '{}') AS h_ended
    FROM shoal.attempt a WHERE a.task = d.task AND a.outcome IN ('R', 'B', 'L', 'E')
) history
ORDER BY d.id
