"""A crawl that finds a new page on every page, so that its last tenth has as much to do as its first."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.core.model import ZERO, Done, Lease, RunSettings, Task
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from tools.bench.child import Gate
from tools.bench.draining import Claimer
from tools.bench.pages import page_number, url
from tools.bench.workload import item

HAULER = f"{__name__}:haul"
HOSTS = 2_000
# Without a delay, and with many requests at once: a claim is full also where the pending tasks are few.
SETTINGS = RunSettings(host_delay=ZERO, per_host=100)
PARTS = 10


@dataclass(frozen=True, slots=True)
class Route:
    """How many tasks are crawled, and how many of them are pending at any time."""

    tasks: int

    @property
    def seeds(self) -> int:
        """The pages that the crawl begins with: a tenth, and as many of each host."""
        return max(self.tasks // PARTS // HOSTS, 1) * HOSTS

    def after(self, lease: Lease) -> list[Task]:
        """Return the page that a page leads to: another one of its host, which no other leads to."""
        assert lease.task.url is not None
        return [Task(url=url(page_number(lease.task.url) + self.seeds, HOSTS))]


class Hauler(Claimer):
    """A claimer that marks the time and its processor seconds whenever a tenth of its tasks is settled."""

    def __init__(self, queue: Queue, worker_id: str, gate: Gate, route: Route, share: int) -> None:
        super().__init__(queue, worker_id)
        self._gate, self._route, self._share, self._settled = gate, route, share, 0
        self.marks: list[tuple[float, float, int]] = []

    def mark(self) -> None:
        """Note the moment, if another tenth is settled."""
        if self._settled >= len(self.marks) * self._share / PARTS:
            self.marks.append((time.monotonic(), self._gate.cpu(), self._settled))

    def make_outcomes(self, leases: Sequence[Lease]) -> list[Done]:
        """Complete every task with an item and the next page."""
        return [Done(lease, items=[item(lease)], follow=self._route.after(lease)) for lease in leases]

    async def _settle(self, leases: Sequence[Lease]) -> None:
        await super()._settle(leases)
        self._settled += len(leases)
        self.mark()


async def haul(gate: Gate, *, number: int, address: str, tasks: int, claimers: int) -> dict[str, Any]:
    """Crawl a part of the tasks, and return when each tenth of it was done."""
    share = tasks // claimers
    async with open_queue(address) as queue:
        await gate()
        hauler = Hauler(queue, f"hauler-{number}", gate, Route(tasks), share)
        hauler.mark()
        await hauler.work(share)
    return {"marks": hauler.marks}


@dataclass(frozen=True, slots=True)
class Tenth:
    """What a tenth of the crawl took."""

    rate: float  # tasks per second
    client_cpu: float  # seconds per task
    server_cpu: float


def tenths(reports: Sequence[dict[str, Any]], samples: Sequence[tuple[float, float]]) -> list[Tenth]:
    """Return each tenth; every process has its own, so that none waits for another at its end.

    The samples are times and the processor seconds that the server had used by then.
    """
    found = []
    for part in range(PARTS):
        rate = tasks = cpu = server = 0.0
        for report in reports:
            (began, before, first), (ended, after, last) = report["marks"][part : part + 2]
            rate += (last - first) / (ended - began)
            tasks, cpu = tasks + last - first, cpu + after - before
            server += (_at(samples, ended) - _at(samples, began)) / len(reports)
        found.append(Tenth(rate, cpu / tasks, server / tasks))
    return found


def _at(samples: Sequence[tuple[float, float]], moment: float) -> float:
    """Return the server's processor seconds at a moment between two samples."""
    before = max((one for one in samples if one[0] <= moment), default=samples[0])
    after = min((one for one in samples if one[0] > moment), default=samples[-1])
    if after[0] <= before[0]:
        return before[1]
    return before[1] + (after[1] - before[1]) * (moment - before[0]) / (after[0] - before[0])
