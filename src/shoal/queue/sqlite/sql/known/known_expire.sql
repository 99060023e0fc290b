-- A batch of expired keys; no query returns them any more.
DELETE FROM known
WHERE (scraper, key) IN (SELECT scraper, key FROM known WHERE until <= :now ORDER BY until LIMIT :limit)
