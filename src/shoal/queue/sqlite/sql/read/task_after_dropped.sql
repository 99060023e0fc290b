-- A page of dropped tasks after a seq, as [seq, seq].
SELECT json_group_array(json_array(seq, seq)) FROM (
    SELECT seq FROM dropped WHERE run = :run AND seq > :after ORDER BY seq LIMIT :limit
)
