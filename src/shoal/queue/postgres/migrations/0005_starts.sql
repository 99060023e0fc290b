-- The starts on a host before the last one and their gaps, as long as they may become the last again.
ALTER TABLE shoal.host ADD COLUMN earlier_at timestamptz[] NOT NULL DEFAULT '{}', ADD COLUMN earlier_gap interval[] NOT NULL DEFAULT '{}';

-- An outcome can give its start back. Functions with other arguments would remain beside the new ones, so the old ones are dropped first.
DROP FUNCTION IF EXISTS shoal.finish(
    shoal.run, bytea[], bigint[], text[], interval[], text[], interval[], interval[], int[], int[]
);
DROP FUNCTION IF EXISTS shoal.settle(
    uuid, boolean, text, bytea[], bigint[], text[], interval[], text[], interval[], interval[], int[], int[], int[], bytea[], text[],
    int[], bytea[], text[], text[], int[], text[], text[], text[], int[], bytea[], int[], int[], smallint[], int[],
    interval[], interval[], text[], text[], text[]
);
