SELECT json_group_array(json_array(id, last_start, last_delay, earlier))
FROM host WHERE id IN (SELECT value FROM json_each(:hosts))
