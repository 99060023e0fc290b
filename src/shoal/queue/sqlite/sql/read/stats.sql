SELECT json_group_array(json_array(
    step, partition, json_array(pending, delayed, leased, completed, dead, expired, dropped, items, rejected)
))
FROM section WHERE run = :run
