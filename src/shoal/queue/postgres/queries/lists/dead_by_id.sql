-- The numbers of the dead letters with the ids $3 after number $2 that meet the conditions.
SELECT d.id FROM shoal.dead d
WHERE d.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND d.id > $2 AND d.task = ANY ($3::bytea[])
  AND ($4::text IS NULL OR d.section = ANY (ARRAY(SELECT s.id FROM shoal.section s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.step = $4)))
  AND ($5::text IS NULL OR d.section = ANY (ARRAY(SELECT s.id FROM shoal.section s WHERE s.run = (SELECT r.id FROM shoal.run r WHERE r.run_id = $1) AND s.partition = $5)))
  AND ($6::text IS NULL OR d.host = ANY (ARRAY(SELECT h.id FROM shoal.host h WHERE h.name = lower($6) OR starts_with(h.name, lower($6) || ':'))))
  AND ($7::text IS NULL OR strpos(d.error, $7) > 0)
  AND ($8::timestamptz IS NULL OR d.buried_at < $8) AND ($9::timestamptz IS NULL OR d.buried_at > $9)
ORDER BY d.id
