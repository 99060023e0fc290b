-- A page of dead letters, the oldest first; their numbers only.
SELECT json_group_array(no) FROM (SELECT no FROM dead WHERE run = :run AND no > :after ORDER BY no LIMIT :limit)
