"""A claim costs the same, however many tasks wait, are blocked, or are done."""

from datetime import timedelta

import pytest

from shoal.core.model import ZERO, RunSettings
from shoal.queue.encoding import since_epoch
from shoal.queue.requests import ClaimRequest
from shoal.queue.sqlite import runs
from shoal.queue.sqlite.claim import claim
from tests.unit.queue.sqlite.conftest import NOON

LIMIT = 50
FREE = 100  # hosts that are not blocked, half of them in each partition

FILL = """
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT :tasks)
INSERT INTO task (run, id, host_queue, priority, depth, url)
SELECT :run, randomblob(16), i % :hosts + 1, 0, 0, 'https://host' || i % :hosts || '.example/' || i FROM n;

INSERT INTO host (id, name)
SELECT DISTINCT host_queue, 'host' || host_queue || '.example' FROM task WHERE run = :run
ON CONFLICT DO NOTHING;
INSERT INTO step_group (id, run, step, partition)
VALUES (2 * :run, :run, 'main', ''), (2 * :run + 1, :run, 'main', 'ca');
INSERT INTO host_queue (run, step_group, host, pending)
SELECT :run, 2 * :run + host_queue % 2, host_queue, count(*) FROM task WHERE run = :run GROUP BY host_queue;
UPDATE task SET host_queue = (
    SELECT id FROM host_queue WHERE host_queue.run = :run AND host_queue.host = task.host_queue
) WHERE run = :run;
INSERT INTO ready (host_queue, place, attempt) SELECT host_queue, 9 << 52 | seq, 0 FROM task WHERE run = :run;
"""


def fill(store, run_id, tasks, hosts, **settings):
    """Start a run whose tasks are spread over hosts and two partitions."""
    with store.connection:
        run, _ = runs.start(store, "books", RunSettings(**{"host_delay": ZERO, **settings}), run_id)
        values = {"run": runs.get_row(store, run.id).no, "tasks": tasks, "hosts": hosts}
        store.connection.execute(FILL, values)
        arm(store)


def arm(store):
    host_queues = store.connection.execute("SELECT json_group_array(id) FROM host_queue").get
    store.run("arm", host_queues=host_queues, hosts="[]")


def steps_of_a_claim(store, run_id, asked):
    """Return the number of virtual machine steps of SQLite for a claim that gets its full limit."""
    count = 0

    def step():
        nonlocal count
        count += 1
        return False

    store.connection.set_progress_handler(step, 1)
    with store.connection:
        grant = claim(store, ClaimRequest("worker", run_id, LIMIT, timedelta(minutes=5), **asked))
    store.connection.set_progress_handler(None)
    assert len(grant.leases) == LIMIT
    return count


@pytest.fixture(params=[{}, {"partitions": ["ca"]}], ids=["all", "partition"])
def asked(request):
    return request.param


@pytest.fixture
def few(store, asked):
    """The steps of a claim with a thousand waiting tasks on free hosts."""
    fill(store, "few", 1_000, 2 * FREE)
    steps = steps_of_a_claim(store, "few", asked)
    with store.connection:
        store.connection.execute("DELETE FROM lease; UPDATE host SET last_at = 0")
    return steps


@pytest.mark.long
@pytest.mark.parametrize("hosts", [200, 10_000], ids=["deep", "wide"])
def test_fifty_thousand_waiting_tasks_do_not_make_a_claim_dearer(few, store, asked, hosts):
    fill(store, "many", 50_000, hosts)
    assert steps_of_a_claim(store, "many", asked) < 2 * few


@pytest.mark.long
@pytest.mark.parametrize("how", ["paused", "asked just now", "full"])
def test_ninety_nine_blocked_hosts_in_a_hundred_do_not_make_a_claim_dearer(few, store, asked, how):
    fill(store, "blocked", 500 * FREE, 100 * FREE, host_delay=timedelta(milliseconds=250))
    block(store, how)
    assert steps_of_a_claim(store, "blocked", asked) < 2 * few


def block(store, how):
    """Block all hosts but a few."""
    now = since_epoch(NOON)
    change = {
        "paused": f"UPDATE host SET paused_until = {now} + 60000000 WHERE id > {FREE}",
        "asked just now": f"UPDATE host SET last_at = {now} WHERE id > {FREE}",
        "full": f"""
            INSERT INTO lease (task, run, host_queue, place, host, attempt, worker, start_at, deadline)
            SELECT x'00', 1, 1, 0, host.id, 1, 1, {now}, {now} + 60000000
            FROM host CROSS JOIN json_each('[1, 2, 3, 4]') WHERE host.id > {FREE}
        """,
    }
    with store.connection:
        store.connection.execute(change[how])
        arm(store)


def test_what_waits_for_its_time_or_is_done_with_does_not_make_a_claim_dearer(few, store, asked):
    fill(store, "old", 8_000, 2 * FREE)
    later = since_epoch(NOON) + 60_000_000
    with store.connection:
        store.connection.execute(f"""
            INSERT INTO item (run, step_group, seq, stored_at, data) SELECT run, 1, seq, 0, '' FROM task;
            INSERT INTO dead (run, seq, attempts, buried_at, error) SELECT run, seq, 1, 0, '' FROM task;
            INSERT INTO expired (run, seq, expired_at) SELECT run, seq, 0 FROM task;
            INSERT INTO delayed (seq, run, due, host_queue, place, attempt)
            SELECT seq, run, {later}, 1, 0, 0 FROM task;
            INSERT INTO expiring (run, at, seq) SELECT run, {later}, seq FROM task;
            INSERT INTO failure (seq, token, attempt, worker, ended_at, error)
            SELECT seq, 1, 1, 1, 0, '' FROM task
        """)
    assert steps_of_a_claim(store, "old", asked) < 2 * few
