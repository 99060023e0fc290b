"""How long it takes to look at a queue: the status of a run, the overview of the dashboard, an export."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from shoal.fleet.status.overview import OverviewReader
from shoal.fleet.status.progress import ProgressReader
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from tools.bench.report import percentile
from tools.bench.stores import Store
from tools.bench.workload import RUN_ID

SHOAL = str(Path(sys.executable).with_name("shoal"))
READS, COMMANDS = 20, 3


class Command(NamedTuple):
    """What a command or a read took, in seconds."""

    wall: float
    cpu: float


class Looks(NamedTuple):
    """What it takes to look at one queue, in seconds."""

    status: Command  # the median of several
    status_read: Command  # what it reads from the queue, without the start of a process
    overview: Command  # p95, and the mean processor time
    export: Command


async def look_at(store: Store, address: str) -> Looks:
    """Look at the run in every way."""
    async with open_queue(address) as queue:
        status_read = await _time_reads(store, 0.5, lambda: _read_status(queue))
        # A new reader every time: the dashboard reads links again only every few seconds.
        overview = await _time_reads(store, 0.95, lambda: OverviewReader(queue).read())
    commands = [time_command("status", RUN_ID, "--json", "--queue", address) for _ in range(COMMANDS)]
    with tempfile.TemporaryDirectory() as folder:
        to = str(Path(folder) / "items.jsonl")
        export = time_command("export", RUN_ID, "--to", to, "--queue", address)
    return Looks(sorted(commands)[COMMANDS // 2], status_read, overview, export)


def time_command(*words: str) -> Command:
    """Run a command of Shoal to its end; raises CalledProcessError."""
    before, began = os.times(), time.monotonic()
    subprocess.run([SHOAL, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return Command(time.monotonic() - began, cpu)


async def _read_status(queue: Queue) -> None:
    await ProgressReader(queue, RUN_ID, with_hosts=False).read(last=True)
    await queue.size()


async def _time_reads(store: Store, share: float, read: Callable[[], Awaitable[object]]) -> Command:
    """Return the time within which this share of many reads is done, and the processor time of one."""
    times, cpu, server = [], time.process_time(), store.cpu()
    for _ in range(READS):
        began = time.monotonic()
        await read()
        times.append(time.monotonic() - began)
    used = time.process_time() - cpu + store.cpu() - server
    return Command(percentile(times, share), used / READS)
