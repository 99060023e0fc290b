-- The tables of the queue.
--
-- Big tables (task, attempt, item, reject) are insert-only. What changes often is narrow and short-lived
-- (host queue, host, bundle, lease), so that dead row versions stay few and vacuum cheap. There are no foreign keys: each would
-- lock a hot row on every insert.

CREATE TABLE shoal.run (
    id           int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id       text NOT NULL UNIQUE,
    scraper      text NOT NULL,
    state        text NOT NULL DEFAULT 'running',
    host_delay   interval NOT NULL,
    per_host     int NOT NULL,
    max_attempts int NOT NULL,
    ttl          interval,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    reason       text NOT NULL DEFAULT '',     -- why a run ended with tasks left; its state is then 'partial'
    dedup        interval,                     -- how long its keys are kept in table dedup,
    dedup_steps  text[] NOT NULL DEFAULT '{}'  -- and those of which steps: of all if none is named
);

-- Purged runs whose rows are still being deleted: see 90_purge.sql.
CREATE TABLE shoal.purged (
    run int PRIMARY KEY
);

-- A step group is one (run, step, partition). Bit p of `bands` is set once a task of priority p has entered it,
-- so that a claim looks only where tasks can be.
CREATE TABLE shoal.step_group (
    id        int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run       int NOT NULL,
    step      text NOT NULL,
    partition text NOT NULL,
    bands     int NOT NULL DEFAULT 0,
    UNIQUE (run, step, partition)
);

-- A host's rate limit, shared by all runs. No live lease of the host has a token below `lease_floor`: counting from there keeps
-- a claim from scanning the index entries of leases that ended long ago. `delay` is set by an operator, `slowdown` by errors: leases carry it,
-- so that any success reduces it. `earlier_at` and `earlier_gap` are the starts before the last one, as long as they may become the last again.
CREATE TABLE shoal.host (
    id           int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text NOT NULL UNIQUE,
    last_at      timestamptz NOT NULL DEFAULT '-infinity',
    last_gap     interval NOT NULL DEFAULT '0',
    delay        interval NOT NULL DEFAULT '0',
    paused_until timestamptz NOT NULL DEFAULT '-infinity',
    lease_floor  bigint NOT NULL DEFAULT 0,
    earlier_at   timestamptz[] NOT NULL DEFAULT '{}',
    earlier_gap  interval[] NOT NULL DEFAULT '{}',
    slowdown     interval NOT NULL DEFAULT '0'
) WITH (fillfactor = 50);

-- Host 0 is for tasks without a URL: it has no rate limit.
INSERT INTO shoal.host (id, name) OVERRIDING SYSTEM VALUE VALUES (0, '');

-- A host queue is the tasks of one step group on one host: the unit that a claim schedules. `due_at` is when to check it next, NULL when it is empty;
-- `band` is its highest priority; `idle` is set while an empty host queue waits to be closed (see 46_closing.sql), and `waits` counts the checks in vain.
-- Tasks without a host are spread over eight shards, so that claimers do not queue up for one host queue.
CREATE TABLE shoal.host_queue (
    host    int NOT NULL,
    step_group int NOT NULL,
    shard   smallint NOT NULL,
    run     int NOT NULL,
    band    smallint NOT NULL,
    due_at  timestamptz,
    idle    bigint,
    waits   smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (host, step_group, shard)
) WITH (fillfactor = 70);
CREATE INDEX host_queue_ready ON shoal.host_queue (step_group, band, due_at) WHERE due_at IS NOT NULL AND idle IS NULL;
CREATE INDEX host_queue_idle ON shoal.host_queue (run, due_at) WHERE idle IS NOT NULL;

CREATE TABLE shoal.task (
    id       bytea PRIMARY KEY,
    run      int NOT NULL,
    step_group  int NOT NULL,
    host     int NOT NULL,
    priority smallint NOT NULL,
    depth    int NOT NULL,
    ttl      interval,
    delay    interval,
    url      text,
    key      text,
    payload  text
);

-- Pending tasks, up to 64 in a row: a claim takes from the front of a bundle and pays for one row, not for each task.
CREATE SEQUENCE shoal.bundle_seq CACHE 100;
CREATE TABLE shoal.bundle (
    host       int NOT NULL,
    step_group    int NOT NULL,
    shard      smallint NOT NULL,
    priority   smallint NOT NULL,
    seq        bigint NOT NULL DEFAULT nextval('shoal.bundle_seq'),
    run        int NOT NULL,
    attempt    smallint NOT NULL,
    expires_at timestamptz,
    tasks      bytea[] NOT NULL,
    PRIMARY KEY (host, step_group, shard, priority, seq)
) WITH (fillfactor = 80);
CREATE INDEX bundle_expiry ON shoal.bundle (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE shoal.delayed (
    run        int NOT NULL,
    due_at     timestamptz NOT NULL,
    seq        bigint GENERATED ALWAYS AS IDENTITY,
    host       int NOT NULL,
    step_group    int NOT NULL,
    shard      smallint NOT NULL,
    priority   smallint NOT NULL,
    attempt    smallint NOT NULL,
    expires_at timestamptz,
    tasks      bytea[] NOT NULL,
    PRIMARY KEY (run, due_at, seq)
);
CREATE INDEX delayed_expiry ON shoal.delayed (expires_at) WHERE expires_at IS NOT NULL;

CREATE SEQUENCE shoal.token_seq;
CREATE TABLE shoal.lease (
    task       bytea PRIMARY KEY,
    token      bigint NOT NULL,
    run        int NOT NULL,
    step_group    int NOT NULL,
    host       int NOT NULL,
    shard      smallint NOT NULL,
    priority   smallint NOT NULL,
    attempt    smallint NOT NULL,
    start_at   timestamptz NOT NULL,
    deadline   timestamptz NOT NULL,
    expires_at timestamptz,
    worker     text NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX lease_host ON shoal.lease (host, token);
CREATE INDEX lease_deadline ON shoal.lease (deadline);

-- How leases ended that did not complete their task: R(etry), B(ury), L(ost). Releases leave no trace: a task may be released for hours.
CREATE TABLE shoal.attempt (
    task     bytea NOT NULL,
    token    bigint NOT NULL,
    run      int NOT NULL,
    attempt  smallint NOT NULL,
    outcome  "char" NOT NULL,
    start_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    worker   text NOT NULL,
    error    text,
    PRIMARY KEY (task, token)
);

-- Completed tasks, a row for each settlement and not for each task: which worker finished which tasks, when, and how many items each yielded,
-- `{}` if none did. A row has up to two kilobytes, which the server would try to compress and then store apart.
CREATE TABLE shoal.done (
    run      int NOT NULL,
    ended_at timestamptz NOT NULL,
    worker   text NOT NULL,
    tasks    bytea[] NOT NULL,
    items    int[] NOT NULL
) WITH (toast_tuple_target = 8160);

CREATE TABLE shoal.item (
    run       int NOT NULL,
    id        bigint GENERATED ALWAYS AS IDENTITY,
    task      bytea NOT NULL,
    stored_at timestamptz NOT NULL,
    data      text NOT NULL,
    PRIMARY KEY (run, id)
);

CREATE TABLE shoal.reject (
    run       int NOT NULL,
    id        bigint GENERATED ALWAYS AS IDENTITY,
    task      bytea NOT NULL,
    stored_at timestamptz NOT NULL,
    data      text NOT NULL,
    reason    text NOT NULL,
    PRIMARY KEY (run, id)
);

CREATE TABLE shoal.dead (
    run       int NOT NULL,
    id        bigint GENERATED ALWAYS AS IDENTITY,
    task      bytea NOT NULL UNIQUE,
    step_group   int NOT NULL,
    host      int NOT NULL,
    shard     smallint NOT NULL,
    attempts  smallint NOT NULL,
    buried_at timestamptz NOT NULL,
    error     text NOT NULL,
    PRIMARY KEY (run, id)
);

-- Host queues by their columns, as functions pass them to each other.
CREATE TYPE shoal.host_queues AS (runs int[], hosts int[], step_groups int[], shards smallint[], bands smallint[]);

CREATE TABLE shoal.expired (
    run        int NOT NULL,
    id         bigint GENERATED ALWAYS AS IDENTITY,
    task       bytea NOT NULL,
    expired_at timestamptz NOT NULL,
    PRIMARY KEY (run, id)
);

-- Tasks that an operator dropped, so that they can be listed.
CREATE TABLE shoal.dropped (
    run        int NOT NULL,
    id         bigint GENERATED ALWAYS AS IDENTITY,
    task       bytea NOT NULL,
    dropped_at timestamptz NOT NULL,
    PRIMARY KEY (run, id)
);

-- The keys that runs with `dedup` have queued: other runs of the scraper skip them until they expire. A purge of a run keeps them.
CREATE TABLE shoal.dedup (
    scraper text NOT NULL,
    key     bytea NOT NULL,
    until   timestamptz NOT NULL,
    PRIMARY KEY (scraper, key)
);
CREATE INDEX dedup_until ON shoal.dedup (until);

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

-- Counters. Every change appends one row of deltas in its own transaction; folding moves them into the totals. A counter that is
-- always the sum of what was committed cannot drift, and no row is hot.
CREATE TABLE shoal.delta (
    run      int NOT NULL,
    worker   text,
    step_groups int[] NOT NULL,
    hosts    int[] NOT NULL,
    kinds    smallint[] NOT NULL,
    counts   int[] NOT NULL
);

CREATE TABLE shoal.step_group_counters (
    run int NOT NULL, step_group int NOT NULL, kind smallint NOT NULL, count bigint NOT NULL,
    PRIMARY KEY (run, step_group, kind)
);
CREATE TABLE shoal.host_counters (
    run int NOT NULL, host int NOT NULL, kind smallint NOT NULL, count bigint NOT NULL,
    PRIMARY KEY (host, run, kind)
);
CREATE INDEX host_counters_run ON shoal.host_counters (run, host);
CREATE TABLE shoal.worker_counters (
    run int NOT NULL, worker text NOT NULL, kind smallint NOT NULL, count bigint NOT NULL,
    PRIMARY KEY (run, worker, kind)
);

CREATE TABLE shoal.worker (
    worker_id text PRIMARY KEY,
    run       int NOT NULL,
    state     text NOT NULL,
    info      text NOT NULL,
    beat_at   timestamptz NOT NULL
) WITH (fillfactor = 50);

-- The result of a call, kept for a while: a caller that lost the reply repeats the call with the same id and gets it.
CREATE TABLE shoal.receipt (
    call  uuid PRIMARY KEY,
    at    timestamptz NOT NULL,
    reply bigint[] NOT NULL
);
CREATE INDEX receipt_at ON shoal.receipt (at);

-- The server's timeline, and when a change of it was seen: see 48_timeline.sql. It is known before the first claim, which a standby may miss; some
-- services do not tell it.
CREATE TABLE shoal.timeline (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    name    text NOT NULL,
    since   timestamptz NOT NULL
);
INSERT INTO shoal.timeline (name, since) VALUES ('', '-infinity');
DO $$ BEGIN
    UPDATE shoal.timeline SET name = left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
EXCEPTION WHEN OTHERS THEN
    NULL;
END $$;

-- The hot tables are small; vacuum them by count, not by share.
ALTER TABLE shoal.host_queue SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE shoal.host SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE shoal.lease SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE shoal.delta SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE shoal.bundle SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE shoal.note SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
