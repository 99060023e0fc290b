"""The workers of one run on this machine: started, restarted when they die, and stopped together."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from shoal.fleet.whereabouts import new_worker_id
from shoal.queue.contract import Queue
from shoal.worker.keeper import Ending, Keeper
from shoal.worker.line import Order
from shoal.worker.nursery import Nursery
from shoal.worker.tally import Tally

MOST_RESTARTS = 5  # in a row, without a page in between
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0


@dataclass(slots=True)
class CrewEnding:
    """How the work of a crew ended."""

    reasons: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)

    @property
    def failed(self) -> bool:
        """Whether no worker came to a proper end."""
        return bool(self.failures) and not self.reasons


class Crew:
    """Keeps a number of workers at work on one run."""

    def __init__(
        self,
        queue: Queue,
        order: Order,
        count: int,
        *,
        step_timeout: timedelta,
        nursery: Nursery | None = None,
        on_event: Callable[[str], None] = lambda text: None,
        on_output: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._queue, self._order, self._count, self._nursery = queue, order, count, nursery
        self._step_timeout, self._on_event, self._on_output = step_timeout, on_event, on_output
        self._keepers: dict[int, Keeper] = {}
        self._past = Tally()
        self._stops = 0
        self._stopping = asyncio.Event()

    @property
    def tally(self) -> Tally:
        """What all workers have done so far."""
        return sum((keeper.tally for keeper in self._keepers.values()), self._past)

    @property
    def in_hand(self) -> int:
        """How many leases the workers hold."""
        return sum(len(keeper.in_hand) for keeper in self._keepers.values())

    @property
    def pids(self) -> list[int]:
        """The processes of the workers."""
        return [keeper.pid for keeper in self._keepers.values() if keeper.pid]

    def stop(self) -> int:
        """Finish what is in hand; the second time hand it back, the third time kill. Return the count."""
        self._stops += 1
        self._stopping.set()
        for keeper in self._keepers.values():
            keeper.stop() if self._stops < 3 else keeper.kill()
        return self._stops

    async def run(self) -> CrewEnding:
        """Work until the run is drained or stopped, or no worker can work."""
        ending = CrewEnding()
        with self._nursery or Nursery() as nursery:
            async with asyncio.TaskGroup() as group:
                for number in range(self._count):
                    group.create_task(self._man(nursery, number, ending))
        ending.tally = self._past
        return ending

    async def _man(self, nursery: Nursery, number: int, ending: CrewEnding) -> None:
        """Keep one place manned."""
        deaths, pages = 0, 0
        while not self._stops:
            last = await self._employ(nursery, number)
            if last.reason not in ("died", "failed"):
                ending.reasons.append(last.reason)
                return
            # A worker that its task has killed is no worse than a new one. While others get on, so may it.
            deaths = 1 if last.blamed or self.tally.pages > pages else deaths + 1
            pages = self.tally.pages
            if last.reason == "failed" or deaths > MOST_RESTARTS:
                ending.failures.append("\n".join([last.message, *last.last_lines]))
                return
            if not self._stops:
                self._on_event(f"A worker {last.message}; starting another.")
                await self._wait(0.0 if last.blamed else min(FIRST_WAIT * 2 ** (deaths - 1), LONGEST_WAIT))
        ending.reasons.append("stopped")

    async def _employ(self, nursery: Nursery, number: int) -> Ending:
        order = msgspec.structs.replace(self._order, worker_id=new_worker_id())
        keeper = Keeper(
            self._queue, order, nursery, step_timeout=self._step_timeout, on_output=self._on_output
        )
        self._keepers[number] = keeper
        try:
            return await keeper.run()
        finally:
            del self._keepers[number]
            self._past += keeper.tally

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
