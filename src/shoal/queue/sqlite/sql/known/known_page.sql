-- The next keys of a scraper after :after: how many of them have not expired, and the last one; no row when none are left.
SELECT json_array(total(until > :now), lower(hex(max(key))))
FROM (SELECT key, until FROM known WHERE scraper = :scraper AND key > unhex(:after) ORDER BY key LIMIT :limit)
HAVING count(*) > 0
