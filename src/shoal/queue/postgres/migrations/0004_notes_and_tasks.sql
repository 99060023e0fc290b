-- Notes: small state that the whole fleet shares. `place` is a digest of the key, which may be longer than an index takes.
-- `written_at` is in no index, so that a note that is written again and again stays where it is.
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
-- What is long has been compressed by whoever wrote it.
ALTER TABLE shoal.note ALTER value SET STORAGE EXTERNAL;
ALTER TABLE shoal.note SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- A claim can be fenced by a note. A function's result cannot be changed in place, so the old one goes first.
DROP FUNCTION IF EXISTS shoal.claim(
    uuid, boolean, text, text, int, interval, interval, text[], text[], bigint[], timestamptz[]
);

-- What an operator gave up, so that it can be listed.
CREATE TABLE shoal.dropped (
    run        int NOT NULL,
    id         bigint GENERATED ALWAYS AS IDENTITY,
    task       bytea NOT NULL,
    dropped_at timestamptz NOT NULL,
    PRIMARY KEY (run, id)
);
