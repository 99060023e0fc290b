-- A page of items after :after, and the last number read. A page ends early when it holds too many bytes.
-- An item of a download belongs to the page that asked for it, unless a step was run on the file.
SELECT json_array(
    max(page.id),
    json_group_array(json_array(
        page.id, lower(hex(task.id)),
        CASE WHEN substr(task.payload, 1, 13) = '{"$download":' AND json_extract(task.payload, '$."$download".runs_step') IS NULL
            THEN coalesce(json_extract(task.payload, '$."$download".origin'), task.url) ELSE task.url END,
        section.step, page.data, page.stored_at
    ))
        FILTER (WHERE :step IS NULL OR section.step = :step)
)
FROM (
    SELECT *, sum(octet_length(data)) OVER (ORDER BY id) - octet_length(data) AS before FROM (
        SELECT * FROM item WHERE run = :run AND id > :after ORDER BY id LIMIT :limit
    )
) page
CROSS JOIN section ON section.id = page.section
CROSS JOIN task ON task.seq = page.seq
WHERE page.before < :bytes
