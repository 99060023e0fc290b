-- How many items a completed task yielded, and when: a row for each task that yielded any. An index of items by task would tell it too, but
-- cost every item an entry.
CREATE TABLE yielded (
    seq       INTEGER PRIMARY KEY,
    items     INTEGER NOT NULL,
    stored_at INTEGER NOT NULL
) STRICT;
INSERT INTO yielded (seq, items, stored_at) SELECT seq, count(*), max(stored_at) FROM item GROUP BY seq;
