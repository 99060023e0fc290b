-- Keys that runs of a scraper have queued, which its other runs skip for a while.

-- name: dedup_add
-- A key that already exists has expired, or occurs twice in one batch.
WITH given (run, now, key) AS (
    VALUES (?, ?, ?)
)
INSERT INTO dedup (scraper, key, until)
SELECT run.scraper, given.key, given.now + run.dedup
FROM given CROSS JOIN run ON run.no = given.run AND run.dedup IS NOT NULL
WHERE true
ON CONFLICT (scraper, key) DO UPDATE SET until = excluded.until

-- name: dedup_expire
-- A batch of expired keys; no query returns them any more.
DELETE FROM dedup
WHERE (scraper, key) IN (SELECT scraper, key FROM dedup WHERE until <= :now ORDER BY until LIMIT :limit)

-- name: dedup_forget
DELETE FROM dedup WHERE scraper = :scraper AND key > unhex(:after) AND key <= unhex(:last)

-- name: dedup_look
-- Of the tasks [position, id, key], those that are not in the run: their positions, and whether another run has queued them.
SELECT json_group_array(json_array(g.value ->> 0, EXISTS (
    SELECT 1 FROM dedup WHERE dedup.scraper = run.scraper AND dedup.key = unhex(g.value ->> 2) AND dedup.until > :now
)))
FROM json_each(:given) g CROSS JOIN run ON run.no = :run
WHERE NOT EXISTS (SELECT 1 FROM task WHERE task.run = :run AND task.id = unhex(g.value ->> 1))

-- name: dedup_page
-- The next keys of a scraper after :after: how many of them have not expired, and the last one; no row when none are left.
SELECT json_array(total(until > :now), lower(hex(max(key))))
FROM (SELECT key, until FROM dedup WHERE scraper = :scraper AND key > unhex(:after) ORDER BY key LIMIT :limit)
HAVING count(*) > 0
