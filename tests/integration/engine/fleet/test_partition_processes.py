"""Partitions are shared out among real processes, which are stopped, killed, blocked and refused."""

import asyncio
import os
import re
import signal
import tomllib
from collections import defaultdict
from datetime import timedelta
from pathlib import Path

import pytest

from shoal.cli.exits import Exit
from shoal.core.model import ZERO, RunSettings, Task
from shoal.fleet.connect import connect
from shoal.fleet.partitions.table import read_table
from shoal.fleet.status.partitions import partitions
from shoal.queue.open import open_queue
from tests.integration.engine.partition_workers import plan_of
from tests.integration.engine.shell import start, typed

STATES = [f"S{number:02}" for number in range(51)]
on_sqlite = pytest.mark.parametrize("any_bench", ["sqlite"], indirect=True)

SCRAPER = """
import asyncio, os, time
from shoal import Scraper, Task

{trouble}
states = Scraper("states", retries=5, lease="{lease}")

@states.step(fetch=None)
async def state(task: Task):
    began = time.monotonic()
    {work}
    name, ended = task.partition, time.monotonic()
    yield {{"task": task.key, "partition": name, "pid": os.getpid(), "began": began, "ended": ended}}
"""
NAP = "await asyncio.sleep(0.05)"
UNTIL_TOLD = 'while not os.path.exists("go"): await asyncio.sleep(0.05)'
PLANNED = (
    "--partitions",
    "exclusive",
    "--heartbeat",
    "1s",
    "--concurrency",
    "2",
    "--batch-size",
    "4",
    "--json",
)


@pytest.fixture
async def queue(any_bench):
    async with open_queue(any_bench.queue_url) as queue:
        yield queue


class Site:
    """A folder with a scraper, a run in a queue, and the commands that work on it."""

    def __init__(self, bench, queue):
        self.folder, self._url, self._queue = bench.folder, bench.queue_url, queue
        self.commands = []

    async def fill(self, names, each, *, work=NAP, trouble="", lease="2s"):
        """Write the scraper, and start a run."""
        self.commands.clear()
        (self.folder / "states.py").write_text(SCRAPER.format(work=work, trouble=trouble, lease=lease))
        self.run = await self._queue.start_run(
            "states", settings=RunSettings(host_delay=ZERO, max_attempts=6)
        )
        tasks = [Task(step="state", key=f"{name}-{n}", partition=name) for n in range(each) for name in names]
        await self._queue.enqueue(self.run.id, tasks)

    async def command(self, *words):
        """Start workers with a command of their own."""
        line = ("work", "states.py", "--run", self.run.id, "--queue", self._url, *words)
        self.commands.append(await start(*line, folder=self.folder))
        return self.commands[-1]

    async def typed(self, *words):
        return await typed(*words, "--queue", self._url, folder=self.folder)

    async def until(self, is_so):
        async with asyncio.timeout(30):
            while not is_so(await self._queue.stats(self.run.id)):
                await asyncio.sleep(0.05)

    async def items(self):
        return [item.data async for item in self._queue.items(self.run.id)]

    async def drained(self):
        """Wait for the end of the commands that are left, and of the run."""
        async with asyncio.timeout(40):
            await asyncio.gather(*(command.communicate() for command in self.commands))
        return (await self._queue.stats(self.run.id)).remaining == 0

    def close(self):
        for command in self.commands:
            if command.returncode is None:
                os.killpg(command.pid, signal.SIGKILL)


@pytest.fixture
async def site(any_bench, queue):
    site = Site(any_bench, queue)
    yield site
    site.close()


def served_by_two(items):
    """Return the partitions in which accepted work of two processes overlaps."""
    spans = defaultdict(list)
    for item in items:
        spans[item["partition"]].append((item["began"], item["ended"], item["pid"]))
    return {
        name
        for name, found in spans.items()
        for one in found
        for other in found
        if one[2] != other[2] and one[0] < other[1] and other[0] < one[1]
    }


@on_sqlite
async def test_a_worker_whose_step_blocks_it_keeps_its_partition(site, queue):
    await site.fill(["x", "y"], 1, work="time.sleep(3)", lease="60s")
    await site.command("--workers", "2", *PLANNED)
    await site.until(lambda stats: stats.leased == 2)
    plan, _ = await plan_of(queue, site.run)
    await asyncio.sleep(1.2)  # a heartbeat, through which both are blocked
    later, members = await plan_of(queue, site.run)
    assert set(later.seats) == members and later.seats == plan.seats and len(members) == 2
    assert await site.drained()
    by = {(item["partition"], item["pid"]) for item in await site.items()}
    assert len(by) == 2


@pytest.mark.long
@on_sqlite
async def test_the_command_shows_who_has_what_and_names_what_nobody_has(site, queue):
    await site.fill(["x", "y"], 2, work=UNTIL_TOLD, lease="60s")
    before = await site.typed("partitions", site.run.id)
    assert (
        "2 partitions with pending tasks and no owner: x, y" in before.err
        and "--partitions auto" in before.err
    )
    await site.command("--partitions", "auto", "--json")
    await site.until(lambda stats: stats.leased)
    (worker,) = (await plan_of(queue, site.run))[1]
    rows = {row["partition"]: row for row in (await site.typed("partitions", site.run.id, "--json")).rows}
    assert set(rows) == {"x", "y"} and rows["x"]["owners"] == [worker] and rows["x"]["since_seconds"] >= 0
    shown = await site.typed("partitions", site.run.id)
    assert worker in shown.out and "no owner" not in shown.err
    assert (await site.typed("partitions", "nowhere")).code == Exit.USAGE
    (site.folder / "go").touch()
    assert await site.drained()
    done = {one.name: (one.counts.completed, one.owners) for one in await partitions(queue, site.run.id)}
    assert done == {"x": (2, ()), "y": (2, ())}


@pytest.mark.long
@on_sqlite
async def test_a_written_table_is_checked_and_obeyed(site):
    await site.fill(["x", "y", "z"], 3)
    table = site.folder / "table.toml"
    refused = {
        '1 = ["x", "y"]\n2 = ["y", "z"]': "'y' to worker 1 and to worker 2",
        '1 = ["x"]\n2 = ["y"]': "'z' of run",
        '1 = ["x", "y"]\n2 = ["z", "q"]': "'q' to worker 2",
    }
    for text, words in refused.items():
        table.write_text(text)
        command = await site.command("--partition-table", str(table), "--json")
        out, err = await command.communicate()
        assert command.returncode == Exit.USAGE and words in err.decode() + out.decode()
    table.write_text('1 = ["x"]\n2 = ["y", "z"]')
    await site.command("--partition-table", str(table), "--workers", "2", *PLANNED)
    assert await site.drained()
    by = defaultdict(set)
    for item in await site.items():
        by[item["pid"]].add(item["partition"])
    assert sorted(map(sorted, by.values())) == [["x"], ["y", "z"]]


@on_sqlite
async def test_from_python_workers_share_partitions_out_and_a_run_tells_them(site, any_bench):
    (site.folder / "states.py").write_text(SCRAPER.format(work=NAP, trouble="", lease="20s"))
    tasks = [Task(step="state", key=f"{name}-{n}", partition=name) for n in range(10) for name in "xy"]
    async with connect(any_bench.queue_url, folder=site.folder) as app:
        run = await app.start(
            f"{site.folder}/states.py",
            tasks=tasks,
            workers=2,
            partitions="exclusive",
            partition_table={1: "x", 2: "y"},
        )
        await run.wait(timedelta(seconds=30))
        assert [(one.name, one.counts.completed) for one in await run.partitions()] == [("x", 10), ("y", 10)]
        items = [item async for item in run.results()]
    assert served_by_two(items) == set() and len({item["pid"] for item in items}) == 2


PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "partitions.md").read_text()


@on_sqlite
async def test_the_examples_of_the_page_run(site, any_bench, monkeypatch):
    (table,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert read_table(tomllib.loads(table), "page") == {"CA": 1, "NV": 1, "TX": 2, "OK": 2, "NY": 3}
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (site.folder / "listings.py").write_text(SCRAPER.format(work=NAP, trouble="", lease="20s"))
    monkeypatch.chdir(site.folder)
    exec(compile(example, "partitions.md", "exec"), names := {})
    await names["main"](any_bench.queue_url)
