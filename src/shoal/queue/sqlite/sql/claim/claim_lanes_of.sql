-- Like claim_lanes.sql, for the sections :sections only.
SELECT json_group_array(json_array(
    id, section, host, priority, pending, delay,
    (SELECT count(*) FROM lease WHERE lease.host = due.host AND lease.host > 0),
    slowdown
))
FROM (
    SELECT lane.id, lane.section, lane.host, lane.priority, lane.pending,
        max(host.delay, host.slowdown) AS delay, host.slowdown
    FROM json_each('[9,8,7,6,5,4,3,2,1,0]') band CROSS JOIN json_each(:sections) part
    CROSS JOIN lane ON lane.id IN (
        SELECT id FROM lane WHERE section = part.value AND priority = band.value AND due <= :now
        ORDER BY due LIMIT :limit
    )
    CROSS JOIN host ON host.id = lane.host
    ORDER BY lane.priority DESC, lane.due, lane.id LIMIT :limit
) due
