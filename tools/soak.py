"""Let a simulated fleet work on PostgreSQL for hours; all tables but those of its results must stay small."""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby

from shoal.queue.open import open_queue
from tests.servers.postgres import PostgresServer
from tests.servers.process import ServerMissing
from tools.bench.children import run_processes
from tools.bench.fleet.process import SIMULATE
from tools.bench.fleet.servers import PER_MACHINE
from tools.bench.fleet.workload import HOST_DELAY, SCRAPER, SETTINGS, seeds
from tools.bench.talk import say

RUN = "soak"
DATABASE = "soak"
# A row for each task, attempt, item and dead letter, until the run is purged.
RESULTS = {"task", "bundle", "done", "item", "reject", "dead", "attempt", "expired", "known"}
GROWTH = 1.5  # the most that a table may hold in the last quarter, compared with the second
SMALL = 1_000  # rows that are no growth

Rows = Mapping[str, int]  # of each table


def count_rows(server: PostgresServer) -> Rows:
    """Return how many rows each table of the queue has."""
    names = server.sql(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'shoal'", database=DATABASE
    ).split()
    each = (f"SELECT '{name}', count(*) FROM shoal.{name}" for name in sorted(names))
    lines = server.sql(" UNION ALL ".join(each), database=DATABASE).splitlines()
    return {name: int(count) for name, count in (line.split("|") for line in lines)}


def find_growing(samples: Sequence[Rows]) -> list[str]:
    """Return the tables that went on growing, apart from those that hold results."""
    quarter = max(1, len(samples) // 4)
    second, last = samples[quarter : 2 * quarter] or samples[:1], samples[-quarter:]
    growing = []
    for name in sorted(samples[-1].keys() - RESULTS):
        before, after = (max(sample.get(name, 0) for sample in part) for part in (second, last))
        if after > GROWTH * before + SMALL:
            growing.append(name)
    return growing


async def soak(server: PostgresServer, options: argparse.Namespace) -> list[Rows]:
    """Let the fleet work, and return how many rows there were from time to time."""
    server.sql(f"CREATE DATABASE {DATABASE}")
    address = server.url(DATABASE)
    async with open_queue(address) as queue:
        await queue.start_run(SCRAPER, settings=SETTINGS, run_id=RUN)
        await queue.enqueue(RUN, seeds(max(1, round(options.workers * HOST_DELAY.total_seconds()))))
    samples: list[Rows] = []

    async def sample() -> None:
        while True:
            await asyncio.sleep(options.minutes * 60 / options.samples)
            samples.append(await asyncio.to_thread(count_rows, server))
            shown = [f"{name} {rows}" for name, rows in samples[-1].items() if name not in RESULTS]
            say(f"{samples[-1]['item']:,} items; {', '.join(shown)}")

    sampling = asyncio.create_task(sample())
    work = run_processes(
        1,
        SIMULATE,
        address=address,
        run_id=RUN,
        workers=options.workers,
        per_machine=PER_MACHINE,
        stagger=20.0,
        seconds=options.minutes * 60.0,
        is_rested=False,
    )
    try:
        await work
    finally:
        sampling.cancel()
    return samples


def show(samples: Sequence[Rows]) -> None:
    """Print the rows of each table at four moments."""
    moments = [samples[round(part * (len(samples) - 1) / 4)] for part in range(5)]
    names = sorted(samples[-1], key=lambda name: (name in RESULTS, name))
    for is_result, group in groupby(names, RESULTS.__contains__):
        print("Results of the run:" if is_result else "Bookkeeping:")
        for name in group:
            print(f"  {name:16}" + "".join(f"{moment.get(name, 0):>12,}" for moment in moments))


def main() -> int:
    """Soak for as long as the command line says."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120, metavar="N", help="default 120")
    parser.add_argument("--workers", type=int, default=100, metavar="N", help="default 100")
    parser.add_argument("--samples", type=int, default=24, metavar="N", help="how often it looks, default 24")
    options = parser.parse_args()
    with PostgresServer(durable=True, max_connections=200) as server:
        samples = asyncio.run(soak(server, options))
    show(samples)
    if growing := find_growing(samples):
        print(f"BROKEN: {', '.join(growing)} went on growing")
        return 1
    print("No table beside the results went on growing.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ServerMissing as error:
        sys.exit(f"error: {error}")
