-- Tasks whose delay is over, as [lane, section, place, attempts so far].
SELECT json_group_array(json_array(lane.id, lane.section, due.place, due.attempt))
FROM (SELECT lane, place, attempt FROM delayed WHERE run = :run AND due <= :now ORDER BY due LIMIT :limit) due
CROSS JOIN lane ON lane.id = due.lane
