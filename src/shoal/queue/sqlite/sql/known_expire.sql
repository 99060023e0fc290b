-- Some of the keys whose time is over; nobody has looked at them since.
DELETE FROM known
WHERE (scraper, key) IN (SELECT scraper, key FROM known WHERE until <= :now ORDER BY until LIMIT :limit)
