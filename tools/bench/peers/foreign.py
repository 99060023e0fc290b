"""Peers that live in an environment of their own: their queue is filled, then their workers are started."""

import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tools.bench.children import ROOT
from tools.bench.peers.commands import Command, commands
from tools.bench.peers.order import Order
from tools.bench.peers.tally import Count, read_counts
from tools.bench.processes import cpu_of_sessions, kill_session

GLANCE = 0.02  # seconds between two looks at the counts
AFTERWARDS = 0.3  # seconds in which a job that is done twice would show
PATIENCE = 25.0  # seconds without any progress
GOODBYE = 3.0
LONGEST_FILL = 300.0


class PeerFailed(Exception):
    """A peer did not do its jobs."""


@dataclass(frozen=True, slots=True)
class Work:
    """What the workers did, and the processor seconds that they used for it."""

    counts: Sequence[Count]
    cpu: float

    @property
    def jobs(self) -> int:
        return sum(count.jobs for count in self.counts)

    @property
    def seconds(self) -> float:
        """Return the time from the first job's start to the last one's end."""
        return max(one.ended for one in self.counts) - min(one.began for one in self.counts)


async def fill(python: Path, order: Order) -> float:
    """Put the jobs into the queue and return the seconds that it took."""
    async with _process(python, ("-m", "tools.bench.peers.fill"), order) as (process, log):
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), LONGEST_FILL)
        if process.returncode != 0:
            raise PeerFailed(f"{order.peer} could not be given its jobs: {_end_of(log)}")
        log.seek(0)
        return float(json.loads(log.read().splitlines()[-1])["seconds"])


async def work(python: Path, order: Order) -> Work:
    """Start the workers, wait until every job is done, and end them."""
    async with AsyncExitStack() as stack:
        started = [
            await stack.enter_async_context(_process(python, command, order)) for command in commands(order)
        ]
        try:
            return await Watch(order, [process for process, _ in started]).until_done()
        except PeerFailed as error:
            said = "\n".join(_end_of(log) for _, log in started)
            raise PeerFailed(f"{error}: {said}") from None


class Watch:
    """Looks on while the workers of a peer do the jobs of an order."""

    def __init__(self, order: Order, processes: Sequence[asyncio.subprocess.Process]) -> None:
        self._order, self._processes = order, processes
        self._sessions = [process.pid for process in processes]
        self._folder = Path(order.folder)
        self._seen = 0
        self._progress = time.monotonic()

    async def until_done(self) -> Work:
        """Return as soon as every job was done; raises PeerFailed when nothing moves any more."""
        await self._until(1)
        before = cpu_of_sessions(self._sessions)
        await self._until(self._order.jobs)
        cpu = cpu_of_sessions(self._sessions) - before
        await asyncio.sleep(AFTERWARDS)
        return Work(read_counts(self._folder), cpu)

    async def _until(self, jobs: int) -> None:
        while (done := sum(count.jobs for count in read_counts(self._folder))) < jobs:
            self._check(done)
            await asyncio.sleep(GLANCE)

    def _check(self, done: int) -> None:
        now = time.monotonic()
        if done > self._seen:
            self._seen, self._progress = done, now
        ended = all(process.returncode is not None for process in self._processes)
        if ended or now > self._progress + PATIENCE:
            raise PeerFailed(f"{self._order.peer} stopped after {done:,} of {self._order.jobs:,} jobs")


@asynccontextmanager
async def _process(
    python: Path, command: Command, order: Order
) -> AsyncIterator[tuple[asyncio.subprocess.Process, IO[bytes]]]:
    """Lend a process that is the head of a session of its own, which ends with it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **order.environment(), **_extra(order)}
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *_ends_with_us(),
            python,
            *command,
            cwd=ROOT,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process, log
        finally:
            await _end(process)


def _ends_with_us() -> Command:
    """Return the words that have the kernel end a process when we are killed and cannot."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "TERM", "--") if setpriv else ()


def _extra(order: Order) -> dict[str, str]:
    """Return the settings that a peer takes from its environment only."""
    return {"dramatiq_queue_prefetch": str(order.choice["prefetch"])} if order.peer == "dramatiq" else {}


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask the process to end, and kill what is left of its session after a while."""
    if process.returncode is None:
        process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GOODBYE)
    kill_session(process.pid)
    await process.wait()


def _end_of(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode(errors="replace")[-2_000:]
