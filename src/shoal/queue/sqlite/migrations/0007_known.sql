-- What runs with `dedup` have queued: other runs of the scraper leave it out until then. A purge of a run keeps it.
CREATE TABLE known (
    scraper TEXT NOT NULL,
    key     BLOB NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (scraper, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX known_until ON known (until);

-- How long a run's keys are known, and of which steps, as a JSON list: all if it is empty.
ALTER TABLE run ADD COLUMN dedup INTEGER;
ALTER TABLE run ADD COLUMN dedup_steps TEXT NOT NULL DEFAULT '[]';
