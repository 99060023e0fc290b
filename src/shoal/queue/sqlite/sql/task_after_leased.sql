-- A page of leased tasks behind a token, as [token, seq]. Leases of other runs are read past.
SELECT json_group_array(json_array(token, place & 0xfffffffffffff)) FROM (
    SELECT token, place FROM lease WHERE run = :run AND token > :after ORDER BY token LIMIT :limit
)
