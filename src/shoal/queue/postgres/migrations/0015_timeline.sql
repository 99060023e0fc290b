-- The server's timeline, and when a change of it was seen: see 48_timeline.sql.
CREATE TABLE shoal.timeline (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    name    text NOT NULL,
    since   timestamptz NOT NULL
);
INSERT INTO shoal.timeline (name, since) VALUES ('', '-infinity');
