"""What every scenario works on: tasks of a made-up crawl, and what comes of them."""

from collections.abc import Iterator, Sequence

from shoal.core.model import ZERO, Done, Lease, RunSettings, Task
from shoal.queue.contract import Queue
from tools.bench.pages import HOSTS, page_number, url

RUN_ID = "bench"
BATCH = 100
POLITE = RunSettings(host_delay=ZERO, per_host=8)


def new_tasks(first: int, count: int, hosts: int = HOSTS) -> Iterator[Task]:
    """Make tasks for the pages from `first` on."""
    return (Task(url=url(number, hosts)) for number in range(first, first + count))


def mostly_seen(count: int, seen: int, hosts: int = HOSTS) -> Iterator[Task]:
    """Make tasks of which nine in ten are among the first `seen` pages, spread over all of them."""
    for position in range(count):
        number = seen + position // 10 if position % 10 == 0 else position * 7_919 % seen
        yield Task(url=url(number, hosts))


def item(lease: Lease) -> dict[str, object]:
    """Return the one small item that every task yields."""
    return {"url": lease.task.url, "name": "A Light in the Attic", "price": 51.77, "in_stock": True}


def done(leases: Sequence[Lease]) -> list[Done]:
    """Complete every task with one item."""
    return [Done(lease, items=[item(lease)]) for lease in leases]


def done_and_replaced(leases: Sequence[Lease], hosts: int, stride: int) -> list[Done]:
    """Complete every task with one item and one new page of its host, so that as many stay pending.

    The new page is `stride` pages further, a multiple of the number of hosts that no load goes beyond.
    """
    return [
        Done(lease, items=[item(lease)], follow=[Task(url=url(_number(lease) + stride, hosts))])
        for lease in leases
    ]


async def start_run(queue: Queue, settings: RunSettings = POLITE) -> None:
    """Make the run that every scenario uses."""
    await queue.start_run("bench", settings=settings, run_id=RUN_ID)


def _number(lease: Lease) -> int:
    assert lease.task.url is not None
    return page_number(lease.task.url)
