SELECT json_group_array(DISTINCT host) FROM lane WHERE run = :run
