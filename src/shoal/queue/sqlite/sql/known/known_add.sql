-- A key that already exists has expired, or occurs twice in one batch.
WITH given (run, now, key) AS (
    VALUES (?, ?, ?)
)
INSERT INTO known (scraper, key, until)
SELECT run.scraper, given.key, given.now + run.dedup
FROM given CROSS JOIN run ON run.no = given.run AND run.dedup IS NOT NULL
WHERE true
ON CONFLICT (scraper, key) DO UPDATE SET until = excluded.until
