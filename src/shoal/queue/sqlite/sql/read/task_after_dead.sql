-- A page of dead tasks after a number, as [number, seq].
SELECT json_group_array(json_array(no, seq)) FROM (
    SELECT no, seq FROM dead WHERE run = :run AND no > :after ORDER BY no LIMIT :limit
)
