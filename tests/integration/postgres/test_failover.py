"""A standby is promoted during a run: the run continues, and loses no more than documented."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager, closing
from datetime import timedelta

import pytest

from shoal.core.model import ZERO, Done, Fate, Release, RunSettings, Task
from shoal.queue.postgres.queue import PostgresQueue
from tests.conftest import or_skip
from tests.integration.engine.conftest import Bench
from tests.integration.engine.origin import Answer, Origin
from tests.integration.queues.web import page_url
from tests.servers.lossy_proxy import LossyProxy
from tests.servers.postgres import USER, PostgresServer
from tests.servers.postgres_talk import PostgresTalk

TASKS, CLAIMERS, IN_HAND = 600, 3, 10
PATIENCE = timedelta(minutes=2)  # on a machine that has much else to do
CAUGHT_UP = "SELECT coalesce(bool_and(replay_lsn >= '{}'::pg_lsn), false) FROM pg_stat_replication"

# Tasks whose settlement was lost stay leased to workers that have finished them, until the leases expire.
A_LEASE_LATER = "UPDATE shoal.lease SET deadline = clock_timestamp()"


class Pair:
    """A primary with its standby, behind an address that forwards to the current primary."""

    def __init__(self, primary, standby, proxy):
        self.primary, self.standby, self._proxy = primary, standby, proxy
        self.url = f"postgresql://{USER}@127.0.0.1:{proxy.port}/postgres"

    async def catch_up(self):
        """Wait until the standby has everything that is committed now."""
        now = await asyncio.to_thread(self.primary.sql, "SELECT pg_current_wal_lsn()")
        async with asyncio.timeout(60):
            while await asyncio.to_thread(self.primary.sql, CAUGHT_UP.format(now)) != "t":
                await asyncio.sleep(0.02)

    async def wait_for_the_standby_at_each_commit(self):
        await asyncio.to_thread(
            self.primary.sql, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"
        )

    async def fail_over(self, *statements):
        """Promote the standby of a killed primary, and forward the address to it."""
        await asyncio.to_thread(self.standby.promote)
        await asyncio.to_thread(self.standby.sql, "SELECT", *statements)
        self._proxy.lead_to(self.standby.port)


@asynccontextmanager
async def pair():
    with or_skip(PostgresServer) as primary, closing(or_skip(PostgresServer)) as standby:
        await asyncio.to_thread(standby.start_standby_of, primary)
        async with LossyProxy(primary.port, PostgresTalk) as proxy:
            yield Pair(primary, standby, proxy)


@pytest.fixture
async def servers():
    async with pair() as servers:
        yield servers


class Fleet:
    """Claimers that know nothing of the servers, with counts of what they fetched and settled."""

    def __init__(self, url, run_id):
        self._url, self._run_id = url, run_id
        self.asked, self.settled = Counter(), set()
        self.filled = asyncio.Event()  # all that is to be enqueued has been
        self._progress = asyncio.Condition()

    async def work(self):
        async with asyncio.TaskGroup() as group:
            for number in range(CLAIMERS):
                group.create_task(self._claim(f"claimer-{number}"))

    async def reaches(self, count):
        """Wait until this many pages have been fetched."""
        async with self._progress:
            await self._progress.wait_for(lambda: self.asked.total() >= count)

    async def _claim(self, name):
        async with await PostgresQueue.open(self._url, patience=PATIENCE) as queue:
            while True:
                grant = await queue.claim(name, run_id=self._run_id, limit=IN_HAND)
                pages = [lease.task.url for lease in grant.leases]
                async with self._progress:
                    self.asked.update(pages)
                    self._progress.notify_all()
                outcomes = [Done(lease, items=[lease.task.url]) for lease in grant.leases]
                fates = await queue.settle(outcomes) if outcomes else []
                self.settled.update(p for p, fate in zip(pages, fates, strict=True) if fate is Fate.ACCEPTED)
                if grant.drained and self.filled.is_set():
                    return
                if not pages:
                    await asyncio.sleep(0.01)  # as a worker that has nothing to do


async def start_run(url):
    async with await PostgresQueue.open(url, patience=PATIENCE) as queue:
        return await queue.start_run("books", settings=RunSettings(host_delay=ZERO, per_host=100))


async def fill(url, run, pages):
    async with await PostgresQueue.open(url, patience=PATIENCE) as queue:
        return (await queue.enqueue(run.id, [Task(url=page_url(page)) for page in pages])).added


async def each_result_once(url, run):
    async with await PostgresQueue.open(url, patience=PATIENCE) as queue:
        stats = await queue.stats(run.id)
        assert (stats.tasks, stats.completed, stats.items, stats.dead) == (TASKS, TASKS, TASKS, 0)
        assert len({item.task_id async for item in queue.items(run.id)}) == TASKS


@pytest.mark.long
async def test_a_standby_that_each_commit_waits_for_takes_over_and_nothing_is_lost_or_asked_twice(servers):
    await servers.wait_for_the_standby_at_each_commit()
    run = await start_run(servers.url)
    assert await fill(servers.url, run, range(TASKS)) == TASKS
    fleet = Fleet(servers.url, run.id)
    fleet.filled.set()
    async with asyncio.timeout(180), asyncio.TaskGroup() as group:
        group.create_task(fleet.work())
        await fleet.reaches(TASKS // 3)
        await asyncio.to_thread(servers.primary.kill)
        await servers.fail_over()
    await each_result_once(servers.url, run)
    assert set(fleet.asked.values()) == {1}


@pytest.mark.long
async def test_a_standby_that_lags_costs_the_moments_it_has_missed_and_no_more(servers):
    run = await start_run(servers.url)
    assert await fill(servers.url, run, range(TASKS - 100)) == TASKS - 100
    fleet = Fleet(servers.url, run.id)
    async with asyncio.timeout(180), asyncio.TaskGroup() as group:
        group.create_task(fleet.work())
        await fleet.reaches(TASKS // 4)
        safe = set(fleet.settled)
        await servers.catch_up()
        await asyncio.to_thread(servers.standby.stop)  # it never receives what is committed from now on
        before = fleet.asked.total()
        assert await fill(servers.url, run, range(TASKS - 100, TASKS)) == 100
        await fleet.reaches(before + TASKS // 4)
        await asyncio.to_thread(servers.primary.kill)
        await asyncio.to_thread(servers.standby.start)
        await servers.fail_over(A_LEASE_LATER)
        # Tasks added in that time are lost with their keys: enqueuing again restores them.
        assert await fill(servers.url, run, range(TASKS)) == 100
        fleet.filled.set()
    await each_result_once(servers.url, run)
    twice = {page for page, count in fleet.asked.items() if count > 1}
    assert twice, "nothing was lost, so nothing was tested"
    assert not twice & safe, "what the standby had heard of is done again"
    assert max(fleet.asked.values()) == 2


# What a standby knows that has missed the claim, once it is promoted.
MISSED = (
    "DELETE FROM shoal.lease",
    "UPDATE shoal.host SET last_at = '-infinity', earlier_at = '{}', earlier_gap = '{}'",
    "UPDATE shoal.host_queue SET due_at = clock_timestamp()",
    "UPDATE shoal.timeline SET name = '000000FF'",
)


@pytest.mark.parametrize("statements", [MISSED, MISSED[:-1]], ids=["promoted", "control"])
async def test_after_a_promotion_each_host_rests_since_its_last_requests_are_unknown(
    postgres, postgres_database, postgres_url, statements
):
    async with await PostgresQueue.open(postgres_url) as queue:
        run = await queue.start_run(
            "books", settings=RunSettings(host_delay=timedelta(minutes=1), per_host=9)
        )
        await queue.enqueue(run.id, [Task(url=f"https://books.example/{page}") for page in range(3)])
        assert len((await queue.claim("me", run_id=run.id)).leases) == 1
        await asyncio.to_thread(postgres.sql, *statements, database=postgres_database)
        grant = await queue.claim("me", run_id=run.id)
        if statements is MISSED:
            assert not grant.leases
            assert timedelta(seconds=55) < grant.next_due < timedelta(seconds=75)
        else:
            assert grant.leases


# A standby that has missed a thousand claims has missed their tokens too.
MANY_CLAIMS = "SELECT setval('shoal.token_seq', 1000)"
MISSED_TOKEN = ("SELECT setval('shoal.token_seq', 1, false)", *MISSED)


@pytest.mark.parametrize("statements", [MISSED_TOKEN, MISSED_TOKEN[:-1]], ids=["promoted", "control"])
async def test_after_a_promotion_no_token_is_given_twice_and_a_lost_lease_is_refused(
    postgres, postgres_database, postgres_url, statements
):
    async with await PostgresQueue.open(postgres_url) as queue:
        run = await queue.start_run("books", settings=RunSettings(host_delay=ZERO, per_host=9))
        await queue.enqueue(run.id, [Task(url="https://books.example/")])
        await asyncio.to_thread(postgres.sql, MANY_CLAIMS, database=postgres_database)
        (lost,) = (await queue.claim("me", run_id=run.id)).leases
        # The task waits again, as the standby has it.
        await queue.settle([Release(lost)])
        await asyncio.to_thread(postgres.sql, *statements, database=postgres_database)
        async with asyncio.timeout(60):
            while not (leases := (await queue.claim("another", run_id=run.id)).leases):
                await asyncio.sleep(0.05)
        (lease,) = leases
        if statements is MISSED_TOKEN:
            assert lease.token > lost.token
            assert await queue.settle([Done(lost)]) == [Fate.STALE]
            assert await queue.settle([Done(lease)]) == [Fate.ACCEPTED]
        else:
            assert lease.token < lost.token


PAGES = 150
CRAWL = """
    crawl = Scraper("crawl", rate=None, robots=False)

    @crawl.step
    async def leaf(page: Page):
        yield {"path": page.url.rpartition("/")[2]}
"""


@pytest.mark.long
async def test_workers_and_their_launcher_go_on_by_themselves(servers, tmp_path):
    await servers.wait_for_the_standby_at_each_commit()
    bench, moving = Bench(tmp_path, servers.url), []

    async def move():
        await asyncio.to_thread(servers.primary.kill)
        await servers.fail_over()

    def on_saw(snapshot, pool):
        if snapshot.stats.completed >= PAGES // 10 and not moving:
            moving.append(asyncio.create_task(move()))

    bench.witness.on_saw = on_saw
    async with Origin() as origin:
        origin.answer = lambda path: Answer(f"<title>{path}</title>", after=0.1)
        urls = [f"{origin.url}/{number}" for number in range(PAGES)]
        async with asyncio.timeout(180):
            summary = await bench.run(CRAWL, urls, workers=2, concurrency=4)
        await moving[0]
    paths = Counter(item["path"] for item in await bench.items(summary.run.id))
    assert paths == Counter({str(number): 1 for number in range(PAGES)})
    assert not summary.ending.failures
    assert max(origin.visits.values()) == 1
