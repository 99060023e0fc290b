-- A page of rejects after id $2 and up to $5. It ends early after $6 bytes. The limit applies before any join, and each row
-- then looks up its own task, so that a page costs the same however many rejects there are. Rejects of another step than $4
-- come without their data: the reader must know how far it has read.
-- An item of a download belongs to the page that asked for it, unless a step was run on the file.
SELECT i.id, i.task, i.stored_at, t.url, s.step, i.reason, CASE WHEN $4::text IS NULL OR s.step = $4 THEN i.data END AS data
FROM (
    SELECT page.*, sum(octet_length(data)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - octet_length(data) AS before
    FROM (
        SELECT * FROM shoal.reject
        WHERE run = (SELECT id FROM shoal.run WHERE run_id = $1) AND id > $2 AND id <= $5
        ORDER BY run, id
        LIMIT $3
    ) page
) i
CROSS JOIN LATERAL (
    SELECT section, CASE WHEN left(payload, 13) = '{"$download":' AND payload::json #> '{$download,runs_step}' IS NULL
        THEN coalesce(payload::json #>> '{$download,origin}', url) ELSE url END AS url
    FROM shoal.task WHERE id = i.task OFFSET 0
) t
CROSS JOIN LATERAL (SELECT step FROM shoal.section WHERE id = t.section OFFSET 0) s
WHERE i.before < $6
ORDER BY i.id
