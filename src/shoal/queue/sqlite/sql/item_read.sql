-- A page of items after :after, and the last number read. A page ends early when it holds too many bytes.
SELECT json_array(
    max(page.id),
    json_group_array(json_array(page.id, lower(hex(task.id)), task.url, section.step, page.data, page.stored_at))
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
