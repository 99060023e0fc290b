-- The keys that runs with `dedup` have queued: other runs of the scraper skip them until they expire. A purge of a run keeps them.
CREATE TABLE shoal.known (
    scraper text NOT NULL,
    key     bytea NOT NULL,
    until   timestamptz NOT NULL,
    PRIMARY KEY (scraper, key)
);
CREATE INDEX known_until ON shoal.known (until);

-- How long a run's keys are kept, and for which steps: for all if none is named.
ALTER TABLE shoal.run ADD COLUMN IF NOT EXISTS dedup interval, ADD COLUMN IF NOT EXISTS dedup_steps text[] NOT NULL DEFAULT '{}';

-- Tasks carry their keys. Functions with other arguments would remain beside the new ones, so the old ones are dropped first.
DROP FUNCTION IF EXISTS shoal.enqueue(
    uuid, boolean, text, text[], text[], text[], int[], bytea[], int[], int[], smallint[], int[], interval[], interval[], text[], text[], text[]
);
DROP FUNCTION IF EXISTS shoal.settle(
    uuid, boolean, text, bytea[], bigint[], text[], interval[], text[], interval[], interval[], int[], int[], int[], bytea[], text[],
    int[], bytea[], text[], text[], int[], text[], text[], text[], int[], bytea[], int[], int[], smallint[], int[],
    interval[], interval[], text[], text[], text[], boolean[], int[], int[]
);
