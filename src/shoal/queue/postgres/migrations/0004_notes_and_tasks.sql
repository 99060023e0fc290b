-- Notes: small state that the whole fleet shares. `place` is a hash of the key, which may be too long for an index.
-- `written_at` is in no index, so that a note that is rewritten often can be updated in place.
CREATE TABLE shoal.note (
    topic      text NOT NULL,
    place      bytea NOT NULL,
    key        text NOT NULL,
    stamp      bigint NOT NULL,
    written_at timestamptz NOT NULL,
    expires_at timestamptz,
    size       int NOT NULL,
    value      bytea NOT NULL,
    PRIMARY KEY (topic, place)
) WITH (fillfactor = 70);
CREATE INDEX note_expiry ON shoal.note (expires_at) WHERE expires_at IS NOT NULL;
-- Long values are compressed by their writer.
ALTER TABLE shoal.note ALTER value SET STORAGE EXTERNAL;
ALTER TABLE shoal.note SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- A claim can be fenced by a note. A function's result type cannot be changed in place, so the old function is dropped first.
DROP FUNCTION IF EXISTS shoal.claim(
    uuid, boolean, text, text, int, interval, interval, text[], text[], bigint[], timestamptz[]
);

-- Tasks that an operator dropped, so that they can be listed.
CREATE TABLE shoal.dropped (
    run        int NOT NULL,
    id         bigint GENERATED ALWAYS AS IDENTITY,
    task       bytea NOT NULL,
    dropped_at timestamptz NOT NULL,
    PRIMARY KEY (run, id)
);
