-- The first :limit due lanes of a run: by falling priority, then the longest waiting first.
-- CROSS JOIN reads the bands one by one, each in the order of its index: lanes that are not due, or that come
-- after the last one wanted, are never read.
SELECT json_group_array(json_array(
    id, section, host, priority, pending, delay,
    (SELECT count(*) FROM lease WHERE lease.host = due.host AND lease.host > 0),
    slowdown
))
FROM (
    SELECT lane.id, lane.section, lane.host, lane.priority, lane.pending,
        max(host.delay, host.slowdown) AS delay, host.slowdown
    FROM json_each('[9,8,7,6,5,4,3,2,1,0]') band CROSS JOIN lane CROSS JOIN host
    WHERE lane.run = :run AND lane.priority = band.value AND lane.due <= :now
      AND host.id = lane.host
    LIMIT :limit
) due
