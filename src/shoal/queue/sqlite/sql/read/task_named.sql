-- The tasks of a run with these ids, as [id, seq].
SELECT json_group_array(json_array(lower(hex(id)), seq))
FROM (SELECT id, seq FROM task WHERE run = :run AND id IN (SELECT unhex(value) FROM json_each(:ids)) ORDER BY id)
