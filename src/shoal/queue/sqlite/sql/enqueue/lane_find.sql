-- The numbers of lanes, NULL for one that does not exist, in the order of :names = [[step, partition, host], ...].
SELECT json_group_array(id) FROM (
    SELECT (
        SELECT lane.id FROM host CROSS JOIN section CROSS JOIN lane
        WHERE host.name = n.value ->> 2
          AND section.run = :run AND section.step = n.value ->> 0 AND section.partition = n.value ->> 1
          AND lane.host = host.id AND lane.run = :run AND lane.section = section.id
    ) AS id
    FROM json_each(:names) n ORDER BY n.key
)
