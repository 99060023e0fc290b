-- The keys that runs with `dedup` have queued: other runs of the scraper skip them until they expire. A purge of a run keeps them.
CREATE TABLE known (
    scraper TEXT NOT NULL,
    key     BLOB NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (scraper, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX known_until ON known (until);

-- How long a run's keys are kept, and for which steps, as a JSON list: for all if it is empty.
ALTER TABLE run ADD COLUMN dedup INTEGER;
ALTER TABLE run ADD COLUMN dedup_steps TEXT NOT NULL DEFAULT '[]';
