"""Which runs are deleted when, and what is said about it."""

from datetime import UTC, datetime, timedelta

import pytest

from shoal.core.errors import InvalidInput, UnknownRun
from shoal.core.model import Done, Task
from shoal.fleet.connect import connect
from shoal.fleet.run import retention
from shoal.fleet.run.lifecycle import purge
from shoal.fleet.run.retention import RetentionRule, apply_keep, purge_old
from shoal.queue.sqlite.queue import SqliteQueue
from shoal.scrape.scraper import Scraper
from shoal.worker.left_out import left_out_topic, trap_topic
from shoal.worker.page_limit import BUDGETS, raise_page_limit
from shoal.worker.recrawl import topic

DAY = timedelta(days=1)
NOW = datetime.now(UTC)


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def queue(tmp_path, clock):
    async with await SqliteQueue.open(tmp_path / "queue.db", now=clock) as queue:
        yield queue


@pytest.fixture
def make_run(queue, clock):
    async def make(age, scraper="books", *, left=0, items=2):
        """Create a run that was started and has ended `age` days ago, with some tasks left."""
        clock.now = NOW - age * DAY
        run = await queue.start_run(scraper, run_id=f"{scraper}{age}")
        await queue.enqueue(run.id, [Task(payload={"n": n}) for n in range(1 + left)])
        (lease,) = (await queue.claim("w", run_id=run.id, limit=1)).leases
        await queue.settle([Done(lease, items=[{"n": n} for n in range(items)])])
        clock.now = NOW
        return run

    return make


async def runs_in(queue):
    return {run.id for run in await queue.runs()}


async def purged(queue, dry_run=False, **rule):
    report = await purge_old(queue, RetentionRule(**rule), dry_run=dry_run, now=NOW)
    return [one.run_id for one in report.runs], report


async def test_a_run_that_another_process_deletes_meanwhile_is_not_counted(queue, make_run, monkeypatch):
    async def lose_the_race(queue, run_id, **options):
        await purge(queue, run_id, **options)
        if run_id == "books40":
            raise UnknownRun(run_id)

    monkeypatch.setattr(retention, "purge", lose_the_race)
    for age in (40, 31):
        await make_run(age)
    ids, report = await purged(queue, older=30 * DAY)
    assert (ids, report.purged, report.items) == (["books31"], 1, 2)


async def test_finished_runs_that_are_older_go_the_oldest_first_with_their_counts(queue, make_run):
    for age in (40, 31, 29, 1):
        await make_run(age)
    ids, report = await purged(queue, older=30 * DAY)
    assert ids == ["books40", "books31"]
    assert await runs_in(queue) == {"books1", "books29"}
    assert (report.purged, report.tasks, report.items, report.dead) == (2, 2, 4, 0)
    assert report.runs[0].run_id == "books40"


async def test_a_dry_run_deletes_nothing(queue, make_run):
    await make_run(40)
    assert (await purged(queue, dry_run=True, older=30 * DAY))[0] == ["books40"]
    assert await runs_in(queue) == {"books40"}


async def test_the_newest_of_each_scraper_are_kept(queue, make_run):
    for age in (33, 32, 31):
        await make_run(age)
        await make_run(age, "shops")
    assert set((await purged(queue, older=30 * DAY, keep=2))[0]) == {"books33", "shops33"}
    assert (await purged(queue, keep=1, scraper="shops"))[0] == ["shops32"]


async def test_runs_with_tasks_left_stay_and_are_counted_unless_asked_for(queue, make_run):
    for age in (33, 32, 31):
        await make_run(age, left=1)
    await queue.cancel("books32")
    await queue.finish("books33", "max_pages 1 reached")
    ids, report = await purged(queue, older=30 * DAY)
    assert (ids, report.unfinished) == (["books32"], 2)
    assert set((await purged(queue, older=30 * DAY, unfinished=True))[0]) == {"books31", "books33"}


async def test_a_run_that_was_worked_on_lately_is_as_young_as_that(queue, make_run, clock):
    await make_run(40)
    clock.now = NOW - 2 * DAY
    await queue.beat("w", run_id="books40", state="finished")
    clock.now = NOW
    assert (await purged(queue, older=30 * DAY))[0] == []
    assert (await purged(queue, older=DAY))[0] == ["books40"]


async def test_a_run_that_workers_are_running_on_is_never_deleted(queue, make_run):
    await make_run(40)
    await make_run(1)
    await queue.beat("w", run_id="books40")
    ids, report = await purged(queue, keep=1, unfinished=True)
    assert (ids, report.in_use) == ([], 1)


@pytest.mark.parametrize("wrong", [{}, {"older": -DAY}, {"keep": -1}, {"scraper": "books"}])
def test_a_rule_that_would_delete_everything_is_refused(wrong):
    with pytest.raises(InvalidInput):
        RetentionRule(**wrong)


async def test_the_end_of_a_run_deletes_what_its_scraper_does_not_keep(queue, make_run):
    await make_run(900, "shops")
    for age in (900, 400):
        await make_run(age)
    run, said = await make_run(0), []
    await apply_keep(queue, Scraper("books"), run, said.append)
    assert not said
    await apply_keep(queue, Scraper("books", keep="500d"), run, said.append)
    assert await runs_in(queue) == {"books0", "books400", "shops900"}
    assert said == ["Deleted 1 run with 1 task, 2 items, 0 dead letters. The setting keep says so."]


async def test_the_notes_of_a_purged_run_go_with_it(queue, make_run):
    run = await make_run(1)
    topics = (left_out_topic(run.id), trap_topic(run.id), topic("pages", "books", run.id))
    for name in topics:
        await queue.write_notes(name, {"w": b"1"})
    await raise_page_limit(queue, run.id, 5)
    await queue.write_notes("cache", {"page": b"1"})
    await purge(queue, run.id)
    for name in (*topics, BUDGETS):
        assert await queue.notes(name) == {}
    assert set(await queue.notes("cache")) == {"page"}
    with pytest.raises(UnknownRun):
        await purge(queue, run.id)


async def test_a_program_purges_and_asks_for_the_size(tmp_path):
    async with connect(f"sqlite:///{tmp_path}/queue.db") as app:
        for _ in range(3):
            run = await app.queue.start_run("books")
            await app.queue.cancel(run.id)
        assert len((await app.purge(keep=1, dry_run=True)).runs) == 2
        assert (await app.purge(older="1d")).runs == []
        assert len((await app.purge(keep=1)).runs) == 2
        assert (await app.size()).bytes > 4096
