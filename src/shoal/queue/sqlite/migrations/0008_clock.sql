-- One row: the latest time at which a claim has looked for tasks, to a few seconds, and how far the store's clock is ahead of the
-- machine's since that was set back.
CREATE TABLE clock (
    latest INTEGER NOT NULL,
    ahead  INTEGER NOT NULL
) STRICT;
INSERT INTO clock (latest, ahead) VALUES (0, 0);
