-- A batch of tasks of a run, as [lane, place].
SELECT json_group_array(json_array(lane, place))
FROM (SELECT lane, (9 - priority) << 52 | seq AS place FROM task WHERE run = :run LIMIT :limit)
