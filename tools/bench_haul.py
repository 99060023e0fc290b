"""Measure a queue after millions of tasks against its beginning: speed, sizes, and the time to look at it."""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from tests.servers.process import ServerMissing
from tools.bench.children import run_processes
from tools.bench.haul.crawl import HAULER, HOSTS, SETTINGS, Route, Tenth, tenths
from tools.bench.haul.looking import Looks, look_at
from tools.bench.haul.sizes import main_parts, sizes_of
from tools.bench.loading import load
from tools.bench.report import Figure, at_least, at_most, machine, many, table, versions, write_json
from tools.bench.servers import open_stores
from tools.bench.stores import Store
from tools.bench.talk import say

TASKS = {"postgres": 10_000_000, "redis": 10_000_000, "sqlite": 5_000_000}
FEW = 2_000  # tasks of the queue with which the time to look is compared
SAMPLE_INTERVAL = 1.0  # seconds
LAST_AGAINST_FIRST = at_least(0.9)
STATUS, OVERVIEW = at_most(100), at_most(300)  # ms


async def measure(store: Store, tasks: int, claimers: int) -> list[Figure]:
    """Crawl so many tasks on one store, and look at what is left there."""
    async with store.room() as address:
        await load(store, address, FEW, hosts=HOSTS, settings=SETTINGS)
        few = await look_at(store, address)
    async with store.room() as address:
        say(f"{store.name}: {many(tasks, 'task')}")
        await load(store, address, Route(tasks).seeds, hosts=HOSTS, settings=SETTINGS)
        async with _sampled(store) as samples:
            reports = await run_processes(claimers, HAULER, address=address, tasks=tasks, claimers=claimers)
        say(f"{store.name}: sizes, and looking at it")
        sizes = await sizes_of(address)
        looks = await look_at(store, address)
    name = f"{store.name}, {many(tasks, 'task')}"
    return [*_speeds(name, tenths(reports, samples)), *_looks(name, looks, few), *_sizes(name, sizes, tasks)]


@asynccontextmanager
async def _sampled(store: Store) -> AsyncIterator[list[tuple[float, float]]]:
    """Lend a list of times and the processor seconds that the server has used by then."""
    samples = [(time.monotonic(), store.cpu())]

    async def sample() -> None:
        while True:
            await asyncio.sleep(SAMPLE_INTERVAL)
            samples.append((time.monotonic(), store.cpu()))

    sampling = asyncio.create_task(sample())
    try:
        yield samples
    finally:
        sampling.cancel()
        with suppress(asyncio.CancelledError):
            await sampling
        samples.append((time.monotonic(), store.cpu()))


def _speeds(name: str, parts: Sequence[Tenth]) -> Iterator[Figure]:
    first, last = parts[0], parts[-1]
    detail = {"rates": [part.rate for part in parts]}
    yield Figure(f"{name}: rate of the first tenth", first.rate, "tasks/s", None, detail)
    yield Figure(f"{name}: rate of the last tenth", last.rate, "tasks/s")
    yield Figure(f"{name}: last against first", last.rate / first.rate, "x", LAST_AGAINST_FIRST)
    yield Figure(
        f"{name}: last against first, by CPU time",
        (first.client_cpu + first.server_cpu) / (last.client_cpu + last.server_cpu),
        "x",
        LAST_AGAINST_FIRST,
    )
    yield Figure(f"{name}: server's CPU per task, last tenth", last.server_cpu * 1e6, "us")
    yield Figure(f"{name}: client's CPU per task, last tenth", last.client_cpu * 1e6, "us")


def _looks(name: str, looks: Looks, few: Looks) -> Iterator[Figure]:
    yield Figure(f"{name}: shoal status, what it reads", looks.status_read.wall * 1e3, "ms", STATUS)
    yield Figure(f"{name}: the same, CPU time", looks.status_read.cpu * 1e3, "ms")
    yield Figure(f"{name}: the same, CPU time with {FEW:,} tasks", few.status_read.cpu * 1e3, "ms")
    yield Figure(f"{name}: shoal status, CPU time of the command", looks.status.cpu * 1e3, "ms")
    yield Figure(f"{name}: the same with {FEW:,} tasks", few.status.cpu * 1e3, "ms")
    yield Figure(f"{name}: overview, p95", looks.overview.wall * 1e3, "ms", OVERVIEW)
    yield Figure(f"{name}: the same, CPU time", looks.overview.cpu * 1e3, "ms")
    yield Figure(f"{name}: the same, CPU time with {FEW:,} tasks", few.overview.cpu * 1e3, "ms")
    yield Figure(f"{name}: shoal export", looks.export.wall, "s", None, {"cpu": looks.export.cpu})


def _sizes(name: str, sizes: Mapping[str, int], tasks: int) -> Iterator[Figure]:
    yield Figure(f"{name}: all of the store", sum(sizes.values()) / tasks, "bytes/task", None, dict(sizes))
    for part, size in main_parts(sizes).items():
        yield Figure(f"{name}: {part}", size / tasks, "bytes/task")


async def run(
    stores: Mapping[str, Store], tasks: Mapping[str, int], claimers: int, figures: list[Figure]
) -> None:
    """Measure one store after the other."""
    for name, store in stores.items():
        figures += await measure(store, tasks[name], claimers)


def main() -> int:
    """Measure the stores that the command line asks for."""
    options = _options()
    wanted = [name for text in options.only or [",".join(TASKS)] for name in text.split(",")]
    if unknown := sorted(set(wanted) - TASKS.keys()):
        raise SystemExit(f"error: No store is called '{unknown[0]}'. There are: {', '.join(TASKS)}")
    tasks = {name: options.tasks or TASKS[name] for name in wanted}
    figures: list[Figure] = []
    before = machine()
    about = {"began": datetime.now(UTC).isoformat(timespec="seconds"), "machine": before}
    with open_stores(wanted, shared_buffers=options.shared_buffers) as stores:
        try:
            uvloop.run(run(stores, tasks, options.claimers, figures))
        except (KeyboardInterrupt, asyncio.CancelledError):
            say("interrupted; this is what was measured so far")
            return 130
        finally:
            after = machine()["load"]
            write_json(options.out, figures, {**about, "load_after": after, "versions": versions()})
            print(table(figures), flush=True)
            print(f"Load average of the machine: {before['load'][0]} before, {after[0]} after", flush=True)
    say(f"All figures: {options.out}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-haul", description=__doc__)
    parser.add_argument(
        "--tasks", type=int, metavar="N", help="for every store; default: 10 million, SQLite 5 million"
    )
    parser.add_argument(
        "--only", action="append", metavar="NAMES", help=f"these stores, with commas: {', '.join(TASKS)}"
    )
    parser.add_argument("--claimers", type=int, default=2, metavar="N", help="processes that work, default 2")
    parser.add_argument("--shared-buffers", default="1GB", metavar="SIZE", help="of PostgreSQL, default 1GB")
    parser.add_argument("--out", type=Path, default=Path("bench-haul.json"), help="where the JSON goes")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ServerMissing as error:
        sys.exit(f"error: {error}")
