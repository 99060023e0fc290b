"""Several processes on one file: each task is done once, no host is flooded, and a death loses nothing."""

import apsw
import pytest

from shoal.core.model import ZERO, RunSettings, Task
from shoal.queue.sqlite.connection import scripts
from shoal.queue.sqlite.queue import SqliteQueue
from tests.integration.programs import reports_of, run_programs
from tests.integration.queues.checks import assert_each_done_once

TASKS, HOSTS = 600, 30
CLAIMER = "tests.integration.sqlite.claimer"

# A trigger as referee: the file itself rejects a lease beyond the limit of a host, and that claim fails.
REFEREE = """
CREATE TRIGGER referee BEFORE INSERT ON lease WHEN (SELECT count(*) FROM lease WHERE host = NEW.host) >= 2
BEGIN SELECT raise(ABORT, 'a third lease of one host'); END
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "queue.db"


@pytest.fixture
async def queue(path):
    async with await SqliteQueue.open(path) as queue:
        yield queue


async def started(queue, tasks=TASKS, **settings):
    run = await queue.start_run("books", settings=RunSettings(**{"host_delay": ZERO, **settings}))
    pages = [Task(url=f"https://h{n % HOSTS}.example/{n}") for n in range(tasks)]
    assert (await queue.enqueue(run.id, pages)).added == tasks
    return run


def orders(path, run, tasks=TASKS, count=1, **more):
    common = {"path": str(path), "run": run.id, "tasks": tasks, **more}
    return [{**common, "name": f"claimer-{number}"} for number in range(count)]


def execute(path, statement):
    connection = apsw.Connection(str(path))
    found = connection.execute(statement).fetchall()
    connection.close()
    return found


async def test_four_claimers_never_hold_too_many_leases_of_a_host_and_complete_every_task_once(queue, path):
    run = await started(queue, per_host=2)
    execute(path, REFEREE)
    reports = await reports_of(CLAIMER, orders(path, run, count=4))
    assert sum(report["accepted"] for report in reports) == TASKS
    assert not any(report["stale"] for report in reports)
    await assert_each_done_once(queue, run, TASKS)


async def test_producers_with_keys_in_common_feed_a_claimer_at_the_same_time(queue, path):
    run = await queue.start_run("books", settings=RunSettings(host_delay=ZERO))
    shares = [
        {"url": f"sqlite:///{path}", "name": f"put-{n}", "run": run.id, "pages": [n * 200, n * 200 + 400]}
        for n in range(3)
    ]
    async with run_programs(CLAIMER, orders(path, run, tasks=800)) as (claimer,):
        reports = await reports_of("tests.integration.queues.producer", shares)
        assert sum(report["added"] for report in reports) == 800
        assert sum(report["duplicate"] for report in reports) == 400
        assert (await claimer.report())["accepted"] == 800
    await assert_each_done_once(queue, run, 800)


async def test_when_claimers_are_killed_another_goes_on_and_nothing_is_lost(queue, path):
    run = await started(queue, per_host=4)
    for turns in (1, 2, 5):
        async with run_programs(CLAIMER, orders(path, run, talks=True)) as (victim,):
            assert [await victim.says() for _ in range(turns)] == [20] * turns
            await victim.kill()
    # An hour ahead, so that the test need not wait for leases of dead workers.
    async with run_programs(CLAIMER, orders(path, run, ahead=3600)) as (heir,):
        await heir.report()
    await assert_each_done_once(queue, run, TASKS)
    assert execute(path, "PRAGMA integrity_check") == [("ok",)]


async def test_eight_processes_open_a_new_file_at_once(path):
    openers = [{"url": f"sqlite:///{path}", "name": f"run-{number}"} for number in range(8)]
    assert await reports_of("tests.integration.queues.opener", openers) == [max(scripts())] * 8
    async with await SqliteQueue.open(path) as queue:
        assert {run.id for run in await queue.runs()} == {f"run-{number}" for number in range(8)}


async def test_a_log_that_a_dead_process_left_is_read(queue, path):
    run = await started(queue, tasks=100)
    async with run_programs(CLAIMER, orders(path, run, tasks=100, talks=True)) as (victim,):
        await victim.says()
        await victim.kill()
    held = (await queue.stats(run.id)).leased
    await queue.close()
    async with await SqliteQueue.open(path) as again:
        stats = await again.stats(run.id)
        assert (stats.tasks, stats.leased) == (100, held)
