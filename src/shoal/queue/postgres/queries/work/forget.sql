-- Delete the next keys of a scraper, in key order, as enqueuing transactions lock them. Returns how many had not expired, and the last one.
WITH page AS (
    SELECT key FROM shoal.known WHERE scraper = $1 AND key > $2 ORDER BY key LIMIT $3 FOR UPDATE
), gone AS (
    DELETE FROM shoal.known k USING page WHERE k.scraper = $1 AND k.key = page.key
    RETURNING k.key, k.until > clock_timestamp() AS is_known
)
SELECT count(*) FILTER (WHERE is_known), (SELECT key FROM page ORDER BY key DESC LIMIT 1) FROM gone
