-- How many items a completed task yielded, and when: a row for each task that yielded any. An index of items by task would
-- provide it too, but cost an entry for every item.
CREATE TABLE yielded (
    seq       INTEGER PRIMARY KEY,
    items     INTEGER NOT NULL,
    stored_at INTEGER NOT NULL
) STRICT;
INSERT INTO yielded (seq, items, stored_at) SELECT seq, count(*), max(stored_at) FROM item GROUP BY seq;
