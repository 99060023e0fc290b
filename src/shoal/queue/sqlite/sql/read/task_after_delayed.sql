-- A page of delayed tasks after one that is due at :first, as [due, seq, seq].
SELECT json_group_array(json_array(due, seq, seq)) FROM (
    SELECT due, seq FROM delayed WHERE run = :run AND (due, seq) > (:first, :after) ORDER BY due, seq LIMIT :limit
)
