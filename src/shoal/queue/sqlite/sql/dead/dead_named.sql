-- The numbers of the dead letters with these ids.
SELECT json_group_array(DISTINCT dead.no)
FROM json_each(:ids) i CROSS JOIN task ON task.run = :run AND task.id = unhex(i.value)
CROSS JOIN dead ON dead.seq = task.seq
