-- The counts of a run: the totals, and the deltas that are not folded yet.
SELECT s.step, s.partition, parts.kind, sum(parts.count)::bigint AS count
FROM shoal.run r
CROSS JOIN LATERAL (
    SELECT section, kind, count FROM shoal.section_tally WHERE run = r.id
    UNION ALL
    SELECT c.section, c.kind, c.count
    FROM shoal.delta d CROSS JOIN LATERAL unnest(d.sections, d.kinds, d.counts) AS c(section, kind, count)
    WHERE d.run = r.id AND c.kind < 9
) parts
JOIN shoal.section s ON s.id = parts.section
WHERE r.run_id = $1
GROUP BY 1, 2, 3
