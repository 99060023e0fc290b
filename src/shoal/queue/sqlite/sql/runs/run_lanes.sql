SELECT json_group_array(id) FROM lane WHERE run = :run
