-- A page of leased tasks after a token, as [token, seq]. Leases of other runs are skipped.
SELECT json_group_array(json_array(token, place & 0xfffffffffffff)) FROM (
    SELECT token, place FROM lease WHERE run = :run AND token > :after ORDER BY token LIMIT :limit
)
