-- A page of expired tasks after a number, as [number, seq].
SELECT json_group_array(json_array(no, seq)) FROM (
    SELECT no, seq FROM expired WHERE run = :run AND no > :after ORDER BY no LIMIT :limit
)
