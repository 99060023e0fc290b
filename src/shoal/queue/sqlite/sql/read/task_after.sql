-- A page of all tasks of a run after the id :after, as [id, seq].
SELECT json_group_array(json_array(lower(hex(id)), seq))
FROM (SELECT id, seq FROM task WHERE run = :run AND id > unhex(:after) ORDER BY id LIMIT :limit)
