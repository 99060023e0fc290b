"""A queue on two real PostgreSQL servers: a forwarder that is killed, and a server that stops for a while."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import defaultdict
from datetime import timedelta

import pytest

from shoal.core.errors import PartlySettled, QueueUnavailable
from shoal.core.model import Done, Fate, RunSettings, Task
from shoal.fleet.status.progress import ProgressReader
from shoal.queue.open import open_queue
from shoal.queue.sharded.links import outbox
from shoal.queue.sharded.links.deliveries import Deliveries
from shoal.worker.claiming.claims import CLOCK_SAMPLES
from tests.conftest import or_skip
from tests.servers.postgres import PostgresServer

HOSTS, PAGES, CLAIMERS = 24, 10, 4
TOTAL = HOSTS * PAGES
GAP = timedelta(milliseconds=100)
# A reply that is lost with its server keeps its leases until they expire.
LEASE = timedelta(seconds=20)

# Settles pages with links to all hosts until it is killed.
FORWARDER = """
import asyncio, sys
from tests.integration.queues.test_several_servers import Crawl
asyncio.run(Crawl(sys.argv[1], sys.argv[2], "forwarder").work())
"""


@pytest.fixture
def servers():
    """Two servers of their own, because tests stop one of them."""
    with or_skip(PostgresServer) as one, or_skip(PostgresServer) as two:
        yield one, two


def address(servers):
    return " ".join(f"{server.url()}#{name}" for server, name in zip(servers, ("one", "two"), strict=True))


def url(host, page):
    return f"https://h{host % HOSTS}.example/{page}"


def links(task):
    """Return the next page of the host, and that of two other hosts, which may be on the other server."""
    host, page = int(task.url.split("/")[2][1:].partition(".")[0]), int(task.url.rpartition("/")[2])
    hosts = (host, host + 1, host + 7)
    return [Task(url=url(one, page + 1)) for one in hosts] if page + 1 < PAGES else []


class Crawl:
    """A worker that ignores the health of the servers, and what it has seen."""

    def __init__(self, queue, run_id, name):
        self._address, self._run_id, self._name = queue, run_id, name
        self.settled = 0
        self.starts = defaultdict(list)
        self.progress = asyncio.Condition()

    async def work(self):
        async with open_queue(self._address, patience=timedelta(seconds=2)) as queue:
            for _ in range(CLOCK_SAMPLES):  # as a worker does: starts are compared by the clock of one server
                await queue.claim(self._name, run_id=self._run_id, limit=1, partitions=[])
            while not await self._turn(queue):
                pass

    async def _turn(self, queue):
        try:
            grant = await queue.claim(self._name, run_id=self._run_id, limit=20, lease=LEASE)
        except QueueUnavailable:
            return False
        for lease in grant.leases:
            self.starts[lease.task.url.split("/")[2]].append(grant.claimed_at + lease.start_in)
        await self._settle(
            queue, [Done(one, items=[one.task.url], follow=links(one.task)) for one in grant.leases]
        )
        if not grant.leases and not grant.drained:
            await asyncio.sleep(0.02)
        return grant.drained

    async def _settle(self, queue, outcomes):
        while outcomes:
            fates = [None] * len(outcomes)
            try:
                fates = await queue.settle(outcomes)
            except PartlySettled as error:
                fates = error.fates
            except QueueUnavailable:
                await asyncio.sleep(0.05)
            async with self.progress:
                self.settled += fates.count(Fate.ACCEPTED)
                self.progress.notify_all()
            outcomes = [one for one, fate in zip(outcomes, fates, strict=True) if fate is None]

    async def reaches(self, settled):
        async with self.progress:
            await self.progress.wait_for(lambda: self.settled >= settled)


async def check_complete(queue, run_id):
    stats = await queue.stats(run_id)
    assert (stats.tasks, stats.completed, stats.items, stats.dead) == (TOTAL, TOTAL, TOTAL, 0)
    found = [item.data async for item in queue.items(run_id)]
    assert sorted(found) == sorted(url(host, page) for host in range(HOSTS) for page in range(PAGES))


async def fill(queue):
    run = await queue.start_run("books", settings=RunSettings(host_delay=GAP, per_host=4, max_attempts=9))
    await queue.enqueue(run.id, [Task(url=url(host, 0)) for host in range(HOSTS)])
    return run


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_while_one_server_is_stopped_the_hosts_of_the_other_go_on_and_nothing_is_lost(servers):
    async with open_queue(address(servers)) as queue:
        run = await fill(queue)
        crawl = Crawl(address(servers), run.id, "claimer")
        async with asyncio.timeout(240), asyncio.TaskGroup() as group:
            for _ in range(CLAIMERS):
                group.create_task(crawl.work())
            await crawl.reaches(TOTAL * 0.3)
            await asyncio.to_thread(servers[1].stop)
            before = crawl.settled
            await crawl.reaches(before + 5)  # by the other server
            await asyncio.to_thread(servers[1].start)
            await crawl.reaches(TOTAL * 0.6)
            await asyncio.to_thread(servers[0].kill)
            await asyncio.to_thread(servers[0].start)
        await check_complete(queue, run.id)
    for host, starts in crawl.starts.items():
        gaps = [later - sooner for sooner, later in zip(sorted(starts), sorted(starts)[1:], strict=False)]
        # The clock of the first server is estimated, by some milliseconds.
        assert not gaps or min(gaps) > GAP / 2, f"{host} was asked too soon: {min(gaps)}"


async def test_links_of_many_pages_that_wait_for_a_server_all_arrive(servers, monkeypatch):
    monkeypatch.setattr(outbox, "SWEEP_INTERVAL_SECONDS", 0.0)
    async with open_queue(address(servers)) as queue, asyncio.timeout(60):
        run = await queue.start_run("books", settings=RunSettings(host_delay=timedelta(0), per_host=1000))
        owners = {number: queue._members.owner(f"h{number}.example").name for number in range(HOSTS)}
        here, there = ([host for host in owners if owners[host] == name] for name in ("one", "two"))
        await queue.enqueue(run.id, [Task(url=url(host, 0)) for host in here])
        leases = (await queue.claim("me", run_id=run.id, limit=100)).leases
        with monkeypatch.context() as patch:
            patch.setattr(Deliveries, "add", lambda *_: None)  # the process dies
            links = [Task(url=url(there[0], number)) for number in range(len(leases))]
            await queue.settle([Done(one, follow=[link]) for one, link in zip(leases, links, strict=True)])
        crawled = []
        while not (grant := await queue.claim("me", run_id=run.id, limit=100)).drained:
            crawled += [lease.task.url for lease in grant.leases]
            await queue.settle([Done(lease) for lease in grant.leases])
        assert sorted(crawled) == sorted(link.url for link in links)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_forwarder_that_is_killed_at_any_moment_loses_and_doubles_nothing(servers):
    async with open_queue(address(servers)) as queue:
        run = await fill(queue)
        crawl = Crawl(address(servers), run.id, "survivor")
        for share in (0.1, 0.3, 0.5):
            with subprocess.Popen([sys.executable, "-c", FORWARDER, address(servers), run.id]) as forwarder:
                async with asyncio.timeout(60):
                    while (await queue.stats(run.id)).completed < TOTAL * share:
                        await asyncio.sleep(0.05)
                os.kill(forwarder.pid, signal.SIGKILL)
            await queue.abandon("forwarder")
        async with asyncio.timeout(120):  # a parcel of a dead forwarder is leased for half a minute
            await crawl.work()
        await check_complete(queue, run.id)


async def test_while_a_server_is_stopped_the_counts_of_the_other_are_shown_soon(servers):
    async with open_queue(address(servers)) as queue:
        run = await fill(queue)
        await asyncio.to_thread(servers[1].stop)
        async with asyncio.timeout(30):  # the queue itself would retry for a minute
            snapshot = await ProgressReader(queue, run.id).read(last=True)
            assert [one.id for one in await queue.runs()] == [run.id]
            assert (await queue.size()).text == "1 of 2 servers together"
        here = sum(queue._members.owner(f"h{number}.example").name == "one" for number in range(HOSTS))
        assert (snapshot.stats.pending, snapshot.stats.unreachable) == (here, ("two",))
        assert not snapshot.is_finished
