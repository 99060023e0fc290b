"""Helpers for what almost every test does."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from shoal.core.model import ZERO, DeadFilter, DeadLetter, Lease, Run, RunSettings, Task
from shoal.queue.contract import DEFAULT_LEASE, Queue

HOUR = timedelta(hours=1)
TEN = timedelta(seconds=10)
HOST = "a.example"
ME = "worker-1"

T = TypeVar("T")


def url(page: object = 1, host: str = HOST) -> str:
    return f"https://{host}/{page}"


def page(name: object = 1, host: str = HOST, **fields: Any) -> Task:
    """Return a task for one page of a host."""
    return Task(url=url(name, host), **fields)


def pages(count: int, host: str = HOST, **fields: Any) -> list[Task]:
    return [page(number, host, **fields) for number in range(count)]


def unhurried(**settings: Any) -> RunSettings:
    """Return the settings of a run without host limits, unless a test sets them."""
    return RunSettings(**{"host_delay": ZERO, "per_host": 1000, **settings})


async def start(queue: Queue, *tasks: Task, run_id: str | None = None, **settings: Any) -> Run:
    """Start a run with these tasks in it."""
    run = await queue.start_run("books", settings=unhurried(**settings), run_id=run_id)
    report = await queue.enqueue(run.id, tasks)
    assert report.added == len(tasks), f"not every task entered: {report}"
    return run


async def claim(queue: Queue, run: Run, worker_id: str = ME, **asked: Any) -> list[Lease]:
    """Claim once."""
    grant = await queue.claim(worker_id, run_id=run.id, **asked)
    return list(grant.leases)


async def claim_one(queue: Queue, run: Run, worker_id: str = ME, **asked: Any) -> Lease:
    """Claim one task; fails if there is none."""
    leases = await claim(queue, run, worker_id, **{"limit": 1, **asked})
    assert len(leases) == 1, "a task was to be handed out, but none was"
    return leases[0]


async def claim_all(queue: Queue, run: Run, worker_id: str = ME, **asked: Any) -> list[Lease]:
    """Claim until nothing is left."""
    leases: list[Lease] = []
    while granted := await claim(queue, run, worker_id, **asked):
        leases += granted
    return leases


async def start_one(
    queue: Queue, task: Task | None = None, *, lease: timedelta = DEFAULT_LEASE, **settings: Any
) -> tuple[Run, Lease]:
    """Start a run with one task and claim it."""
    run = await start(queue, task or page(), **settings)
    return run, await claim_one(queue, run, lease=lease)


async def every(stream: AsyncIterator[T]) -> list[T]:
    return [one async for one in stream]


async def data_of(queue: Queue, run: Run) -> list[Any]:
    """Return the data of all items of a run."""
    return [item.data async for item in queue.items(run.id)]


async def the_dead(queue: Queue, run: Run, **where: Any) -> list[DeadLetter]:
    return await every(queue.dead(run.id, DeadFilter(**where)))


async def the_host(queue: Queue, name: str = HOST) -> Any:
    """Return the status of one host."""
    (status,) = [status async for status in queue.hosts() if status.host == name]
    return status


def paths(leases: Sequence[Lease]) -> list[str]:
    """Return the claimed pages as `host/page`, in order."""
    return [(lease.task.url or "").removeprefix("https://") for lease in leases]
