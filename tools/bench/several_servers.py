"""What a task costs on one PostgreSQL and on a queue of two, in processor time.

`python -m tools.bench.several_servers [TASKS]`. All servers and the client share this machine's cores, so
that wall-clock rates only show who waits for whom: the rate is what the busiest server's processor time
allows with one core each.
"""

import asyncio
import sys
import time
from contextlib import ExitStack
from datetime import timedelta

from shoal.core.errors import PartlySettled
from shoal.core.model import Done, Lease, RunSettings, Task
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from tests.servers.postgres import PostgresServer
from tools.bench.processes import cpu_of_family

HOSTS, BATCH, CLAIMERS = 500, 100, 4
SETTINGS = RunSettings(host_delay=timedelta(0), per_host=1_000)


def link(lease: Lease, elsewhere: float) -> Task:
    """Return a new page: of another host for this share of the pages, else of the same one."""
    _, _, host, page = (lease.task.url or "").split("/", 3)
    number, depth = int(host[1:].partition(".")[0]), int(page)
    moves = (number * 7 + depth) % 100 < elsewhere * 100
    return Task(url=f"https://h{(number + 1) % HOSTS if moves else number}.example/{depth + HOSTS}")


async def settle(queue: Queue, outcomes: list[Done]) -> list[Done]:
    """Settle, and return what a server that was too slow has not confirmed."""
    try:
        await queue.settle(outcomes)
    except PartlySettled as error:
        return [one for one, fate in zip(outcomes, error.fates, strict=True) if fate is None]
    return []


async def measure(servers: list[PostgresServer], tasks: int, elsewhere: float) -> str:
    """Work off so many tasks, each with an item and a new task, and return a row of the table."""
    address = " ".join(f"{server.url()}#{number}" for number, server in enumerate(servers))
    async with open_queue(address) as queue:
        run = await queue.start_run("books", settings=SETTINGS)
        await queue.enqueue(run.id, [Task(url=f"https://h{n}.example/{n}") for n in range(HOSTS)])
        cpu = [cpu_of_family(server.pid) for server in servers]
        own, began, done = time.process_time(), time.monotonic(), 0

        async def work(name: str) -> None:
            nonlocal done
            while done < tasks:
                leases = (await queue.claim(name, run_id=run.id, limit=BATCH)).leases
                done += len(leases)
                outcomes = [
                    Done(one, items=[{"url": one.task.url}], follow=[link(one, elsewhere)]) for one in leases
                ]
                while outcomes:
                    outcomes = await settle(queue, outcomes)

        await asyncio.gather(*(work(f"claimer-{number}") for number in range(CLAIMERS)))
        own, took = time.process_time() - own, time.monotonic() - began
        used = [
            (cpu_of_family(server.pid) - before) / done for server, before in zip(servers, cpu, strict=True)
        ]
        await queue.purge(run.id)
    rate = 1 / max(used)
    return (
        f"| {len(servers)} | {elsewhere:.0%} | {done:,} | {sum(used) * 1e3:.2f} | {max(used) * 1e3:.2f} "
        f"| {own / done * 1e3:.2f} | {rate:,.0f} | {done / took:,.0f} |"
    )


async def main(tasks: int) -> None:
    """Print the table."""
    print(
        "| servers | links elsewhere | tasks | ms of all servers | of the busiest | of the client "
        "| tasks/s by the busiest | tasks/s here |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    with ExitStack() as stack:
        servers = [stack.enter_context(PostgresServer(durable=True)) for _ in range(2)]
        print(await measure(servers[:1], tasks, 0.2), flush=True)
    with ExitStack() as stack:
        servers = [stack.enter_context(PostgresServer(durable=True)) for _ in range(2)]
        for elsewhere in (0.0, 0.2, 1.0):
            print(await measure(servers, tasks, elsewhere), flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
