-- Notes: small state that all processes share. Values are the last column, so that reading a stamp does not read them.
CREATE TABLE note (
    topic      TEXT NOT NULL,
    key        TEXT NOT NULL,
    stamp      INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    expires_at INTEGER,
    size       INTEGER NOT NULL,
    value      BLOB NOT NULL,
    PRIMARY KEY (topic, key)
) STRICT;
CREATE INDEX note_age ON note (topic, written_at, key, size);
CREATE INDEX note_expiry ON note (expires_at) WHERE expires_at IS NOT NULL;

-- Tasks that an operator dropped: without a row of its own, such a task would look like a completed one.
CREATE TABLE dropped (
    seq        INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL,
    dropped_at INTEGER NOT NULL
) STRICT;
CREATE INDEX dropped_of_run ON dropped (run);

-- When a lease begins; its deadline moves.
ALTER TABLE lease ADD COLUMN start_at INTEGER;
