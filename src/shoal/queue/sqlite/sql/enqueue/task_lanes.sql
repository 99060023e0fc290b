SELECT json_group_array(DISTINCT lane) FROM task WHERE seq > :last
