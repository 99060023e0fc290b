SELECT json_group_array(DISTINCT host) FROM lease WHERE run = :run
