"""What a task costs on one PostgreSQL and on a queue of two, in processor time.

`python -m tools.bench.several_servers [TASKS] [ROUNDS]`. All servers and the client share this machine's
cores, so that wall-clock rates only show who waits for whom: the rate is what the busiest server's processor
time allows with one core each.

Each server has the same load in every row: the same number of hosts, pending tasks, claimers and tasks to
work off. So two servers have twice as many of all, as they would where one is not enough. The rows take
turns, each on new databases and after a warm-up, and the table shows medians.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from statistics import median
from typing import NamedTuple
from zlib import crc32

from shoal.core.errors import PartlySettled
from shoal.core.model import Done, Lease, Run, RunSettings, Task
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from tests.servers.postgres import PostgresServer
from tools.bench.processes import cpu_of_family

HOSTS, PAGES, CLAIMERS = 500, 4, 4  # for each server; pages that each host has pending
BATCH = 100
WARM_UP = 4_000  # tasks for each server
SETTINGS = RunSettings(host_delay=timedelta(0), per_host=1_000)
# Servers, and the share of the links that lead to another host. Half of those lead to another server.
ROWS = tuple((servers, elsewhere) for elsewhere in (0.0, 0.2, 1.0) for servers in (1, 2))


class Cost(NamedTuple):
    """Processor seconds of a task."""

    servers: float  # all together
    busiest: float  # of them
    client: float
    rate: float  # tasks a second, as seen


class Crawl:
    """Claimers that work off tasks; each task has an item and a new task."""

    def __init__(self, queue: Queue, run: Run, servers: int, elsewhere: float) -> None:
        self._queue, self._run, self._servers, self._elsewhere = queue, run, servers, elsewhere
        self._hosts, self.done = HOSTS * servers, 0

    def seeds(self) -> list[Task]:
        """Return the pages that the hosts have pending."""
        return [self._page(number, number) for number in range(self._hosts * PAGES)]

    async def work_off(self, tasks: int) -> None:
        """Claim and settle so many tasks for each server."""
        until = self.done + tasks * self._servers
        names = [f"claimer-{number}" for number in range(CLAIMERS * self._servers)]
        await asyncio.gather(*(self._work(name, until) for name in names))

    async def _work(self, name: str, until: int) -> None:
        while self.done < until:
            leases = (await self._queue.claim(name, run_id=self._run.id, limit=BATCH)).leases
            self.done += len(leases)
            outcomes = [Done(one, items=[{"url": one.task.url}], follow=[self._link(one)]) for one in leases]
            while outcomes:
                outcomes = await settle(self._queue, outcomes)

    def _link(self, lease: Lease) -> Task:
        """Return a new page: of another host for a share of the pages, else of the same one."""
        url = lease.task.url or ""
        _, _, host, page = url.split("/", 3)
        moves = crc32(url.encode()) % 1_000 < self._elsewhere * 1_000
        return self._page(int(host[1:].partition(".")[0]) + moves, int(page) + self._hosts * PAGES)

    def _page(self, host: int, page: int) -> Task:
        return Task(url=f"https://h{host % self._hosts}.example/{page}")


async def settle(queue: Queue, outcomes: list[Done]) -> list[Done]:
    """Settle, and return what a server that was too slow has not confirmed."""
    try:
        await queue.settle(outcomes)
    except PartlySettled as error:
        return [one for one, fate in zip(outcomes, error.fates, strict=True) if fate is None]
    return []


async def measure(servers: Sequence[PostgresServer], database: str, tasks: int, elsewhere: float) -> Cost:
    """Work off so many tasks for each server, and return what one costs."""
    for server in servers:
        server.sql(f"CREATE DATABASE {database}")
    address = " ".join(f"{server.url(database)}#{number}" for number, server in enumerate(servers))
    async with open_queue(address) as queue:
        run = await queue.start_run("books", settings=SETTINGS)
        crawl = Crawl(queue, run, len(servers), elsewhere)
        await queue.enqueue(run.id, crawl.seeds())
        await crawl.work_off(WARM_UP)
        for server in servers:
            server.sql("CHECKPOINT")
        before, cpu = crawl.done, [cpu_of_family(server.pid) for server in servers]
        own, began = time.process_time(), time.monotonic()
        await crawl.work_off(tasks)
        own, took, done = time.process_time() - own, time.monotonic() - began, crawl.done - before
        used = [
            (cpu_of_family(server.pid) - sooner) / done for server, sooner in zip(servers, cpu, strict=True)
        ]
    for server in servers:
        server.sql(f"DROP DATABASE {database} WITH (FORCE)")
    return Cost(sum(used), max(used), own / done, done / took)


def row(servers: int, elsewhere: float, costs: Sequence[Cost], one: float) -> str:
    """Return the medians as a row of the table; `one` is what a task costs one server."""
    together, busiest, client, rate = (median(values) for values in zip(*costs, strict=True))
    return (
        f"| {servers} | {elsewhere:.0%} | {together * 1e3:.3f} | {busiest * 1e3:.3f} | {client * 1e3:.3f} "
        f"| {1 / busiest:,.0f} | {one / busiest:.2f} | {rate:,.0f} |"
    )


async def main(tasks: int, rounds: int) -> None:
    """Print the table."""
    found: dict[tuple[int, float], list[Cost]] = {one: [] for one in ROWS}
    with ExitStack() as stack:
        servers = [stack.enter_context(PostgresServer(durable=True)) for _ in range(2)]
        for number in range(rounds):
            for place, (count, elsewhere) in enumerate(ROWS):
                cost = await measure(servers[:count], f"round{number}_{place}", tasks, elsewhere)
                found[count, elsewhere].append(cost)
                print(number, count, f"{elsewhere:.0%}", cost, file=sys.stderr, flush=True)
    print(
        "| servers | links elsewhere | ms of all servers | of the busiest | of the client "
        "| tasks/s by the busiest | times one server | tasks/s here |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for (count, elsewhere), costs in found.items():
        print(row(count, elsewhere, costs, median(cost.busiest for cost in found[1, elsewhere])))


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    asyncio.run(main(given[0] if given else 10_000, given[1] if given[1:] else 3))
