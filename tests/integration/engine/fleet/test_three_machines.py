"""Three machines that share a PostgreSQL: one is cut off in the middle of its work, and comes back."""

import asyncio
import json
import os
import shutil
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from shoal.cli.exits import Exit
from shoal.core.model import ZERO, RunSettings, Task, TaskState
from shoal.queue.open import open_queue
from tests.conftest import or_skip
from tests.integration.engine.origin import Answer, Origin
from tests.integration.engine.sessions import left_over
from tests.integration.engine.shell import start
from tests.servers.network import Network
from tests.servers.postgres import PostgresServer

LEASE = 3.0  # seconds
LEASES = float(os.environ.get("SHOAL_CUT_LEASES", "2"))  # for how many of them the machine is away
PATIENCE = 60.0

# Most of a page's time is spent in its step, so that what is cut off goes on to a result that comes too late.
PAGES = f"""\
import asyncio

from shoal import Page, Scraper

pages = Scraper("pages", rate=None, robots=False, per_host=100, retries=20, lease="{LEASE}s", timeout="5s")

@pages.step
async def page(page: Page):
    await asyncio.sleep(1)
    yield {{"url": page.url}}
"""

WRONG = 3_600  # seconds by which a clock goes ahead
WRONG_CLOCK = f"""\
import time

right, right_ns = time.time, time.time_ns
time.time = lambda: right() + {WRONG}
time.time_ns = lambda: right_ns() + {WRONG} * 10**9
"""

# The same without a fence: the items of whoever comes are stored.
FENCE = "WHERE all_accepted OR i.of = ANY (ended.accepted)"
DEFINITION = "SELECT pg_get_functiondef('shoal.settle'::regproc)"


@dataclass
class Works:
    """A `shoal work` on one machine."""

    machine: object
    process: object
    folder: object
    output: object = None

    def events(self, name):
        """Return what its logs have of an event."""
        texts = [file.read_text() for file in (self.folder / "logs").glob("*.log")]
        lines = [line for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [event for event in map(json.loads, lines) if event["event"] == name]

    @property
    def workers(self):
        return {event["worker"] for event in self.events("worker started")}


@dataclass
class Scene:
    """A run, who works on it and where, and a site that knows who came."""

    queue: object
    run: object
    origin: object
    works: list = field(default_factory=list)
    pages: int = 0
    priority: int = 5  # of what is fed; later pages come after all that was there before
    lag: float = 0.0  # seconds by which this process, which is the site too, was late at most

    async def feed(self, at_least):
        """Have so many pages waiting."""
        missing = at_least - (await self.queue.stats(self.run.id)).pending
        urls = [f"{self.origin.url}/{number}" for number in range(self.pages, self.pages + max(0, missing))]
        self.pages += len(urls)
        tasks = [Task(url=url, step="page", priority=self.priority) for url in urls]
        await self.queue.enqueue(self.run.id, tasks)

    def visits(self, machine, since=0.0):
        """Return the paths that a machine has asked for."""
        seen = zip(self.origin.moments, self.origin.visitors, strict=True)
        return [path for (at, path), who in seen if who == machine.address and at >= since]

    async def until(self, found, fed=40):
        """Keep the run fed until something is so."""
        async with asyncio.timeout(PATIENCE):
            while not await found():
                await self.feed(fed)
                began = time.monotonic()
                await asyncio.sleep(0.1)
                self.lag = max(self.lag, time.monotonic() - began - 0.1)

    async def held_by(self, works):
        """Return the tasks in the hands of a machine's workers, by URL."""
        leased = self.queue.tasks(self.run.id, states=[TaskState.LEASED])
        return {status.task.url: status async for status in leased if status.worker_id in works.workers}

    async def completed(self, urls):
        """Return the worker that has done each of these."""
        done = self.queue.tasks(self.run.id, keys=list(urls), states=[TaskState.COMPLETED])
        return {status.url: status.worker_id async for status in done}

    async def items(self):
        return Counter([item.data["url"] async for item in self.queue.items(self.run.id)])


@pytest.fixture
def network():
    with or_skip(lambda: Network(3)) as made:
        yield made


@pytest.fixture
def server(network):
    """A server of the test's own, which all machines reach."""
    with or_skip(lambda: reachable(network)) as made:
        yield made


def reachable(network):
    server = PostgresServer(settings={"listen_addresses": f"127.0.0.1,{network.address}"})
    rules = server.folder / "hba.conf"
    rules.write_text("local all all trust\nhost all all all trust\n")
    server._settings["hba_file"] = str(rules)
    if server.user:
        shutil.chown(rules, server.user)
    return server


@pytest.fixture
async def scene(network, server, tmp_path):
    """Three machines at work; the clock of the last one is wrong."""
    async with AsyncExitStack() as stack:
        origin = await stack.enter_async_context(
            Origin(lambda path: Answer(after=0.05), address=network.address)
        )
        queue = await stack.enter_async_context(open_queue(server.url()))
        settings = RunSettings(host_delay=ZERO, per_host=100, max_attempts=20)
        run = await queue.start_run("pages", settings=settings)
        scene = Scene(queue, run, origin)
        await scene.feed(60)
        (tmp_path / "pages.py").write_text(PAGES)
        (tmp_path / "sitecustomize.py").write_text(WRONG_CLOCK)
        for machine in network.machines:
            wrong = {"PYTHONPATH": str(tmp_path)} if machine is network.machines[-1] else {}
            scene.works.append(await work(machine, tmp_path, run, network, server, wrong))
            stack.callback(end, scene.works[-1])
        yield scene


async def work(machine, tmp_path, run, network, server, environment):
    folder = tmp_path / machine.name
    folder.mkdir()
    url = server.url().replace("127.0.0.1", network.address)
    process = await start(
        *("work", tmp_path / "pages.py", "--run", run.id, "--queue", url, "--allow-private", network.range),
        *("--concurrency", 4, "--batch-size", 4, "--log-dir", "logs", "--log-format", "json"),
        folder=folder,
        within=machine.inside,
        **environment,
    )
    return Works(machine, process, folder, asyncio.create_task(process.communicate()))


def end(works):
    with suppress(ProcessLookupError):
        os.killpg(works.process.pid, 9)


async def cut_and_join(scene):
    """Cut the first machine off in the middle of its work, let it back, and return what it held."""
    first, held = scene.works[0], {}

    async def all_are_at_work():
        return all(len(scene.visits(works.machine)) > 6 for works in scene.works)

    async def has_pages_in_hand():
        # Asked for a while ago, and not settled: their steps are running, and will come to their end.
        held.clear()
        held.update(await scene.held_by(first))
        asked = set(scene.visits(first.machine)) - set(scene.visits(first.machine, time.monotonic() - 0.3))
        return sum(url.removeprefix(scene.origin.url) in asked for url in held) >= 4

    await scene.until(all_are_at_work)
    await scene.until(has_pages_in_hand)
    first.machine.cut_off()
    cut, scene.priority = time.monotonic(), 0

    async def the_others_have_done_its_work():
        return time.monotonic() - cut > LEASES * LEASE and set(held) == set(await scene.completed(held))

    await scene.until(the_others_have_done_its_work)
    # What was sent before the cut may be read late by the origin, on a busy machine.
    assert not scene.visits(first.machine, since=cut + 0.5 + 2 * scene.lag)
    meanwhile = await scene.completed(held)
    for url, worker in meanwhile.items():
        if worker in first.workers:
            del held[url]  # it was about to settle it when it was cut off
    first.machine.join()
    joined = time.monotonic()

    async def is_back_at_work():
        return len(scene.visits(first.machine, since=joined)) > 4

    await scene.until(is_back_at_work)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(works.output for works in scene.works))
    return held, meanwhile


@pytest.mark.long
async def test_the_tasks_of_a_machine_that_is_cut_off_are_done_by_others_and_its_late_results_refused(scene):
    held, meanwhile = await cut_and_join(scene)
    first, _, last = scene.works

    # Everything that it held was done by others while it was away.
    assert held and set(held) <= set(meanwhile)
    assert not {meanwhile[url] for url in held} & first.workers

    # What it had done of it by itself came too late.
    refused = {event["url"] for event in first.events("result refused") if event["outcome"] == "done"}
    assert refused & set(held)
    # A claim whose answer was on its way at the cut brings leases that have run out. What it does by them is
    # refused too, but such a task may go to anyone next, and so to this machine, which is back by then.
    by = await scene.completed(refused)
    assert set(by) == refused and not {by[url] for url in refused & set(held)} & first.workers

    # Nothing was lost, nothing was stored twice, and everyone went home.
    urls = {f"{scene.origin.url}/{number}" for number in range(scene.pages)}
    assert await scene.items() == Counter(dict.fromkeys(urls, 1))
    stats = await scene.queue.stats(scene.run.id)
    assert (stats.completed, stats.remaining, stats.dead) == (scene.pages, 0, 0)
    assert [works.process.returncode for works in scene.works] == [Exit.OK] * 3
    assert [left_over(works.process.pid) for works in scene.works] == [[], [], []]

    # And one of the clocks was wrong all the time.
    (begun,) = last.events("run begun")
    ahead = datetime.fromisoformat(begun["at"]) - datetime.now(UTC)
    assert WRONG - 300 < ahead.total_seconds() < WRONG


@pytest.mark.long
async def test_without_a_fence_the_late_results_are_stored_a_second_time(scene, server):
    definition = server.sql(DEFINITION)
    assert FENCE in definition
    server.sql(definition.replace(FENCE, ""))
    await cut_and_join(scene)
    # What it held, and what a claim brought whose answer was on its way at the cut: others have done those
    # pages by then. What was stored twice is what the queue had refused, and no more.
    twice = {url for url, count in (await scene.items()).items() if count > 1}
    late = [event for works in scene.works for event in works.events("result refused")]
    assert twice
    assert twice == {event["url"] for event in late if event["outcome"] == "done"}
