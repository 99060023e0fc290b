-- What runs with `dedup` have queued: other runs of the scraper leave it out until then. A purge of a run keeps it.
CREATE TABLE shoal.known (
    scraper text NOT NULL,
    key     bytea NOT NULL,
    until   timestamptz NOT NULL,
    PRIMARY KEY (scraper, key)
);
CREATE INDEX known_until ON shoal.known (until);

-- How long a run's keys are known, and of which steps: all if none is named.
ALTER TABLE shoal.run ADD COLUMN IF NOT EXISTS dedup interval, ADD COLUMN IF NOT EXISTS dedup_steps text[] NOT NULL DEFAULT '{}';

-- Tasks bring their keys. Functions with other arguments would stay beside the new ones, so the old ones go first.
DROP FUNCTION IF EXISTS shoal.enqueue(
    uuid, boolean, text, text[], text[], text[], int[], bytea[], int[], int[], smallint[], int[], interval[], interval[], text[], text[], text[]
);
DROP FUNCTION IF EXISTS shoal.settle(
    uuid, boolean, text, bytea[], bigint[], text[], interval[], text[], interval[], interval[], int[], int[], int[], bytea[], text[],
    int[], bytea[], text[], text[], int[], text[], text[], text[], int[], bytea[], int[], int[], smallint[], int[],
    interval[], interval[], text[], text[], text[], boolean[], int[], int[]
);
