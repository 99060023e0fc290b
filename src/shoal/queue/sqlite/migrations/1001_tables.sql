-- The tables of the queue. Times and durations are in microseconds; a time counts from 1970 in UTC.
--
-- `task` is insert-only. What changes is narrow and short-lived: a waiting task has a row in `ready` or
-- `delayed`, a claimed one has a row in `lease`, and one that failed or expired a row in `dead` or `expired`.
-- A task that has none of these rows is completed or dropped.

CREATE TABLE run (
    no           INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL UNIQUE,
    scraper      TEXT NOT NULL,
    state        TEXT NOT NULL DEFAULT 'running',
    host_delay   INTEGER NOT NULL,
    per_host     INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    ttl          INTEGER,
    started_at   INTEGER NOT NULL,
    reason       TEXT NOT NULL DEFAULT '',     -- why it ended with tasks left; its state is then 'partial'
    dedup        INTEGER,                      -- how long its keys are kept in table dedup,
    dedup_steps  TEXT NOT NULL DEFAULT '[]'    -- and those of which steps, as a JSON list: of all if it is empty
) STRICT;

-- Purged runs whose rows are still being deleted.
CREATE TABLE purged (
    run INTEGER PRIMARY KEY
) STRICT;

-- A step group is one (run, step, partition), with its counts.
CREATE TABLE step_group (
    id        INTEGER PRIMARY KEY,
    run       INTEGER NOT NULL,
    step      TEXT NOT NULL,
    partition TEXT NOT NULL,
    pending   INTEGER NOT NULL DEFAULT 0,
    delayed   INTEGER NOT NULL DEFAULT 0,
    leased    INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    dead      INTEGER NOT NULL DEFAULT 0,
    expired   INTEGER NOT NULL DEFAULT 0,
    dropped   INTEGER NOT NULL DEFAULT 0,
    items     INTEGER NOT NULL DEFAULT 0,
    rejected  INTEGER NOT NULL DEFAULT 0,
    UNIQUE (run, step, partition)
) STRICT;

-- A host's rate limit, shared by all runs. A host that never got a request has last_at 0. `delay` is set by an operator, `slowdown` by errors:
-- leases carry it, so that any success reduces it. `earlier` has the starts before the last one, as long as they may become the last again:
-- [[start, delay], ...]. See hosts.py.
CREATE TABLE host (
    id           INTEGER PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    last_at      INTEGER NOT NULL DEFAULT 0,
    last_gap     INTEGER NOT NULL DEFAULT 0,
    delay        INTEGER NOT NULL DEFAULT 0,
    paused_until INTEGER NOT NULL DEFAULT 0,
    earlier      TEXT NOT NULL DEFAULT '[]',
    slowdown     INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Host 0 is for tasks without a URL: it has no rate limit.
INSERT INTO host (id, name) VALUES (0, '');

-- A host queue is the tasks of one step group on one host, with their counts: the unit that a claim schedules. `priority` is that of its
-- first pending task; `due` is the time from which its host may get a request of this run. Both are NULL when nothing is
-- pending, and `due` is NULL while the host has too many leases: see arm in claim.sql, the only query that sets them.
CREATE TABLE host_queue (
    id        INTEGER PRIMARY KEY,
    run       INTEGER NOT NULL,
    step_group   INTEGER NOT NULL,
    host      INTEGER NOT NULL,
    priority  INTEGER,
    due       INTEGER,
    pending   INTEGER NOT NULL DEFAULT 0,
    delayed   INTEGER NOT NULL DEFAULT 0,
    leased    INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    dead      INTEGER NOT NULL DEFAULT 0,
    expired   INTEGER NOT NULL DEFAULT 0,
    dropped   INTEGER NOT NULL DEFAULT 0,
    items     INTEGER NOT NULL DEFAULT 0,
    rejected  INTEGER NOT NULL DEFAULT 0,
    UNIQUE (host, run, step_group)
) STRICT;
CREATE INDEX host_queue_due_in_run ON host_queue (run, priority, due) WHERE due IS NOT NULL;
CREATE INDEX host_queue_due_in_step_group ON host_queue (step_group, priority, due) WHERE due IS NOT NULL;

CREATE TABLE task (
    seq        INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL,
    id         BLOB NOT NULL,
    host_queue       INTEGER NOT NULL,
    priority   INTEGER NOT NULL,
    depth      INTEGER NOT NULL,
    ttl        INTEGER,
    delay      INTEGER,
    expires_at INTEGER,
    url        TEXT,
    key        TEXT,
    payload    TEXT,
    UNIQUE (run, id)
) STRICT;

-- Pending tasks in the order in which a host queue's tasks are claimed: place = (9 - priority) << 52 | seq.
CREATE TABLE ready (
    host_queue    INTEGER NOT NULL,
    place   INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    PRIMARY KEY (host_queue, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE delayed (
    seq     INTEGER PRIMARY KEY,
    run     INTEGER NOT NULL,
    due     INTEGER NOT NULL,
    host_queue    INTEGER NOT NULL,
    place   INTEGER NOT NULL,
    attempt INTEGER NOT NULL
) STRICT;
CREATE INDEX delayed_due ON delayed (run, due);

-- When to check whether a task has expired. The row stays while the task is leased or done, and is deleted by the check.
CREATE TABLE expiring (
    run INTEGER NOT NULL,
    at  INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (run, at, seq)
) STRICT, WITHOUT ROWID;

-- The token tells a lease from earlier ones of its task; AUTOINCREMENT never assigns one twice. `start_at` is when the lease
-- begins; its deadline moves.
CREATE TABLE lease (
    token    INTEGER PRIMARY KEY AUTOINCREMENT,
    task     BLOB NOT NULL,
    run      INTEGER NOT NULL,
    host_queue     INTEGER NOT NULL,
    place    INTEGER NOT NULL,
    host     INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    worker   INTEGER NOT NULL,
    start_at INTEGER NOT NULL,
    deadline INTEGER NOT NULL
) STRICT;
CREATE INDEX lease_host ON lease (host) WHERE host > 0;
CREATE INDEX lease_deadline ON lease (deadline);

-- Failed attempts: the history of a dead letter.
CREATE TABLE failure (
    seq      INTEGER NOT NULL,
    token    INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    worker   INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    error    TEXT NOT NULL,
    PRIMARY KEY (seq, token)
) STRICT, WITHOUT ROWID;

CREATE TABLE dead (
    no        INTEGER PRIMARY KEY AUTOINCREMENT,
    run       INTEGER NOT NULL,
    seq       INTEGER NOT NULL UNIQUE,
    attempts  INTEGER NOT NULL,
    buried_at INTEGER NOT NULL,
    error     TEXT NOT NULL
) STRICT;
CREATE INDEX dead_of_run ON dead (run);

CREATE TABLE expired (
    no         INTEGER PRIMARY KEY AUTOINCREMENT,
    run        INTEGER NOT NULL,
    seq        INTEGER NOT NULL UNIQUE,
    expired_at INTEGER NOT NULL
) STRICT;
CREATE INDEX expired_of_run ON expired (run);

CREATE TABLE item (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    run       INTEGER NOT NULL,
    step_group   INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    stored_at INTEGER NOT NULL,
    data      TEXT NOT NULL
) STRICT;
CREATE INDEX item_of_run ON item (run);

CREATE TABLE reject (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    run       INTEGER NOT NULL,
    step_group   INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    stored_at INTEGER NOT NULL,
    reason    TEXT NOT NULL,
    data      TEXT NOT NULL
) STRICT;
CREATE INDEX reject_of_run ON reject (run);

-- A worker in a run; `beat_at` is NULL until its first heartbeat.
CREATE TABLE worker (
    no        INTEGER PRIMARY KEY,
    run       INTEGER NOT NULL,
    name      TEXT NOT NULL,
    state     TEXT NOT NULL DEFAULT '',
    info      TEXT NOT NULL DEFAULT '{}',
    beat_at   INTEGER,
    completed INTEGER NOT NULL DEFAULT 0,
    failed    INTEGER NOT NULL DEFAULT 0,
    items     INTEGER NOT NULL DEFAULT 0,
    UNIQUE (run, name)
) STRICT;

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

-- How many items a completed task yielded, and when: a row for each task that yielded any. An index of items by task would
-- provide it too, but cost an entry for every item.
CREATE TABLE yielded (
    seq       INTEGER PRIMARY KEY,
    items     INTEGER NOT NULL,
    stored_at INTEGER NOT NULL
) STRICT;

-- The keys that runs with `dedup` have queued: other runs of the scraper skip them until they expire. A purge of a run keeps them.
CREATE TABLE dedup (
    scraper TEXT NOT NULL,
    key     BLOB NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (scraper, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX dedup_until ON dedup (until);

-- One row: the latest time at which a claim has looked for tasks, to a few seconds, and how far the store's clock is ahead of the
-- machine's since that was set back.
CREATE TABLE clock (
    latest INTEGER NOT NULL,
    ahead  INTEGER NOT NULL
) STRICT;
INSERT INTO clock (latest, ahead) VALUES (0, 0);
