"""Coordinators that are killed and frozen, with clocks that differ, fire every occurrence once."""

import asyncio
import json
import os
import random
import signal
import sys
from asyncio.subprocess import PIPE
from contextlib import suppress
from datetime import timedelta

import pytest
from msgspec.structs import replace

from shoal.core.model import Done
from shoal.fleet.project.file import read
from shoal.fleet.schedule.plan import OccurrenceState
from shoal.fleet.schedule.store import Schedules
from shoal.queue.open import open_queue
from tests.integration.processes import start_process

SCHEDULES, INTERVAL, COORDINATORS = 16, timedelta(seconds=4), 3
OCCURRENCES = int(os.environ.get("SHOAL_OCCURRENCES", "24"))  # at least
SKEW, LOCK_TTL, FREEZE = 2.0, 2.0, (0.5, 6.0)  # seconds; most freezes outlast the lock of the scraper
SCRAPER = """
from shoal import Scraper, Task

{scrapers}
"""
ONE = """
s{n} = Scraper("s{n}")

@s{n}.step(fetch=None)
async def step_{n}(task: Task):
    yield {{}}
"""
TABLES = """
[scrapers.s{n}]
module = "many.py:s{n}"

[scrapers.s{n}.seeds]
axis = ["name:only"]

[schedules.often{n}]
scraper = "s{n}"
every = "{seconds}s"
overlap = "wait"
"""


class Storm:
    """Coordinators as processes, of which one is killed or frozen each second."""

    def __init__(self, url, folder):
        self._order, self._log = json.dumps([url, str(folder), LOCK_TTL]), folder / "coordinators.log"
        self._pids, self._thaws, self._luck = [], set(), random.Random(7)
        self.killed = self.frozen = self.outlasted = 0

    async def __aenter__(self):
        program = (sys.executable, "-m", "tests.integration.queues.coordinator", self._order)
        with self._log.open("ab") as log:
            self._parent = await start_process(*program, stdin=PIPE, stdout=PIPE, stderr=log)
        for _ in range(COORDINATORS):
            await self._fork()
        return self

    async def __aexit__(self, *exc):
        for thaw in self._thaws:
            thaw.cancel()
        for pid in self._pids:
            self._send(pid, signal.SIGKILL)
        self._parent.kill()
        await self._parent.wait()

    async def _fork(self):
        self._parent.stdin.write(f"{self._luck.uniform(-SKEW, SKEW)}\n".encode())
        self._pids.append(int(await self._parent.stdout.readline()))

    def _send(self, pid, number):
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    async def strike(self):
        """Kill one and fork another, or freeze one for a while."""
        victim = self._luck.choice(self._pids)
        if self._luck.random() < 0.5:
            self._pids.remove(victim)
            self._send(victim, signal.SIGKILL)
            await self._fork()
            self.killed += 1
            return
        self._send(victim, signal.SIGSTOP)
        self.frozen += 1
        seconds = self._luck.uniform(*FREEZE)
        self.outlasted += seconds > LOCK_TTL
        self._thaws.add(asyncio.create_task(self._thaw(victim, seconds)))

    async def _thaw(self, victim, seconds):
        await asyncio.sleep(seconds)
        self._send(victim, signal.SIGCONT)


async def drain(queue):
    """Complete every task with one item, as workers would."""
    while True:
        for run in await queue.runs():
            if run.id.startswith("often"):
                grant = await queue.claim("drain", run_id=run.id, limit=5)
                await queue.settle([Done(lease, items=[{"of": run.id}]) for lease in grant.leases])
        await asyncio.sleep(0.2)


async def fire(url, folder, wanted):
    """Fire so many occurrences under a storm; return the records, the stats of the runs, and the storm."""
    many = range(SCHEDULES)
    (folder / "many.py").write_text(SCRAPER.format(scrapers="".join(ONE.format(n=n) for n in many)))
    seconds = INTERVAL.total_seconds()
    (folder / "shoal.toml").write_text("".join(TABLES.format(n=n, seconds=seconds) for n in many))
    async with open_queue(url) as queue:
        schedules = Schedules(queue, read(folder / "shoal.toml"))
        draining = asyncio.create_task(drain(queue))
        try:
            async with Storm(url, folder) as storm:
                while sum(len(one.occurrences) for one in await schedules.all()) < wanted or not (
                    storm.killed and storm.outlasted
                ):
                    await storm.strike()
                    await asyncio.sleep(1)
                for record in await schedules.all():  # not `pause`, which skips what waits
                    await schedules.update(record.name, lambda found: replace(found, next_at=None))
                while any(one.open for one in await schedules.all()):
                    await asyncio.sleep(0.5)
        finally:
            draining.cancel()
        stats = {run.id: await queue.stats(run.id) for run in await queue.runs()}
        return await schedules.all(), stats, storm


# The swap of a note decides, which conformance tests on every store.
SERVERS = [
    "postgres_url",
    *(pytest.param(f"{one}_url", marks=pytest.mark.full) for one in ("redis", "redis_cluster", "rabbitmq")),
]


@pytest.fixture(params=["sqlite", *SERVERS])
def address(request, tmp_path):
    url = f"sqlite:///{tmp_path}/q.db"
    return url if request.param == "sqlite" else request.getfixturevalue(request.param)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_each_occurrence_is_fired_once_whatever_is_killed_or_frozen(tmp_path, address):
    records, stats, storm = await fire(address, tmp_path, OCCURRENCES)
    check(records, stats)
    print(
        f"{len(stats)} runs, {storm.killed} killed, {storm.frozen} frozen, {storm.outlasted} beyond the lock"
    )


def check(records, stats):
    fired = [one.run_id for record in records for one in record.occurrences]
    assert sorted(fired) == sorted(run for run in stats if run.startswith("often"))
    for record in records:
        times = [one.at for one in record.occurrences]
        assert times == [times[0] + INTERVAL * count for count in range(len(times))]  # no gap, none twice
        assert {one.state for one in record.occurrences} == {OccurrenceState.ENDED}
        assert {(one.outcome, one.reason) for one in record.occurrences} == {("complete", "")}
    assert {stats[run].completed for run in fired} == {1}
    assert {stats[run].items for run in fired} == {1}
