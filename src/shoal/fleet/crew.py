"""The workers of one run on this machine: started, restarted when they die, and stopped together."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from shoal.core.errors import DutyFailed, QueueError, ShoalError
from shoal.core.model import ZERO
from shoal.core.tasks import watched
from shoal.fleet.assignment import Membership, admit
from shoal.fleet.breaker import Breaker
from shoal.fleet.logs import NO_LIBRARY, Library
from shoal.fleet.maintenance import maintained
from shoal.fleet.rollcall import RollCall
from shoal.fleet.single import ScraperLock
from shoal.fleet.whereabouts import new_worker_id
from shoal.queue.contract import Queue
from shoal.worker.keeper import Ending, Keeper, StepLimit, once_steps
from shoal.worker.line import Order
from shoal.worker.nursery import Nursery
from shoal.worker.release import release_leases
from shoal.worker.tally import Tally

MOST_RESTARTS = 5  # in a row, without a task that was settled in between
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
LATE_CLAIMS = (1.0, 5.0)  # seconds after a worker's death; what it had asked for may come after its end


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
        limits: Mapping[str, StepLimit],
        lock: ScraperLock,
        nursery: Nursery | None = None,
        on_event: Callable[[str], None] = lambda text: None,
        on_output: Callable[[str], None] = lambda line: None,
        logs: Library = NO_LIBRARY,
        stagger: timedelta = ZERO,
        first: int = 0,
    ) -> None:
        """Have so many workers in the places from `first` on; each starts `stagger` after the one before."""
        self._queue, self._order, self._count, self._nursery = queue, order, count, nursery
        self._limits, self._on_event, self._stagger = limits, on_event, stagger.total_seconds()
        self._first, self._lock = first, lock
        self._keepers: dict[int, Keeper] = {}
        self._past, self._past_completed = Tally(), 0
        self._breaker = Breaker()
        self._lost: dict[str, asyncio.Task[None]] = {}  # workers that died, and who looks after their leases
        self._roll = RollCall(logs, order.run_id, on_output)
        self._membership = Membership(queue, order.run_id, order.sharing) if order.sharing else None
        self._stops = 0
        self._stopping = asyncio.Event()
        self._is_over = False  # whether a worker has found that nothing is left to do

    @property
    def tally(self) -> Tally:
        """What all workers have done so far."""
        return sum((keeper.tally for keeper in self._keepers.values()), self._past)

    @property
    def in_hand(self) -> int:
        """How many leases the workers hold."""
        return sum(len(keeper.in_hand) for keeper in self._keepers.values())

    @property
    def restarts(self) -> int:
        """How many workers were started in the place of dead ones."""
        return self._roll.restarts

    @property
    def pids(self) -> list[int]:
        """The processes of the workers."""
        return [keeper.pid for keeper in self._keepers.values() if keeper.is_manned and keeper.pid]

    @property
    def stops(self) -> int:
        """How often it was asked to stop."""
        return self._stops

    def stop(self) -> int:
        """Finish what is in hand; the second time hand it back, the third time kill. Return the count."""
        self._stops += 1
        self._roll.stopping(self._stops, self.in_hand)
        self._stopping.set()
        for keeper in self._keepers.values():
            keeper.stop() if self._stops < 3 else keeper.kill()
        if self._membership:
            self._membership.retire()
        return self._stops

    async def run(self) -> CrewEnding:
        """Work until the run is drained or stopped, or no worker can work; raises ScraperBusy."""
        ending = CrewEnding()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._lock)
            self._lock.when_lost(self._make_way)
            nursery = stack.enter_context(self._nursery or Nursery())
            await stack.enter_async_context(maintained(self._queue))
            await admit(self._queue, self._order.run_id, self._order.sharing)
            if self._membership:
                await stack.enter_async_context(self._membership)
            await self._man_all(nursery, ending)
        for worker_id, looking in self._lost.items():
            if not looking.done():
                looking.cancel()
                await self._release(worker_id)
        ending.tally = self._past
        return ending

    async def _man_all(self, nursery: Nursery, ending: CrewEnding) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._first, self._first + self._count):
                    group.create_task(self._man(nursery, number, ending))
        except ExceptionGroup as errors:
            first = errors.exceptions[0]
            if isinstance(first, ShoalError):
                raise first from errors
            raise DutyFailed("Looking after a worker", first) from errors

    def _make_way(self, why: str) -> None:
        self._on_event(f"{why} Stopping.")
        self.stop()

    async def _man(self, nursery: Nursery, number: int, ending: CrewEnding) -> None:
        """Keep one place manned."""
        deaths = 0
        await self._wait((number - self._first) * self._stagger)
        while not self._stops and not self._is_over:
            last = await self._employ(nursery, number)
            if last.reason not in ("died", "failed"):
                self._ended_well(last.reason, ending)
                return
            # A worker that its task has killed, or that had begun to work, is no worse than a new one.
            deaths = 1 if last.blamed or last.settled else deaths + 1
            crash_loop = self._breaker.reason if last.killers else None
            if last.reason == "failed" or deaths > MOST_RESTARTS or crash_loop:
                self._give_up(number, last, ending, crash_loop)
                return
            if not self._stops:
                self._roll.restarts += 1
                self._on_event(f"A worker {last.message}; starting another.")
                await self._wait(self._pause_after(last, deaths))
        ending.reasons.append("stopped" if self._stops else "drained")

    def _ended_well(self, reason: str, ending: CrewEnding) -> None:
        ending.reasons.append(reason)
        if reason != "stopped":
            # Who is still waiting for its turn to start need not wait any longer.
            self._is_over = True
            self._stopping.set()

    def _pause_after(self, last: Ending, deaths: int) -> float:
        """Return how long to wait before the next worker: longer and longer, while nothing is completed."""
        if last.killers:
            deaths = self._breaker.deaths - 1  # one task that kills its worker is no reason to wait
        return min(FIRST_WAIT * 2 ** (deaths - 1), LONGEST_WAIT) if deaths else 0.0

    def _give_up(self, number: int, last: Ending, ending: CrewEnding, crash_loop: str | None) -> None:
        self._roll.given_up(number, last, crash_loop)
        how = f"failed: {last.message}" if last.reason == "failed" else last.message
        words = [last.message, *([crash_loop] if crash_loop else []), *last.last_lines]
        ending.failures.append("\n".join(words))
        if self._count > 1:
            end = "" if how.endswith(".") else "."
            self._on_event(f"Worker {number + 1} {how}{end} It is given up; the others go on.")
            if crash_loop:
                self._on_event(f"{crash_loop}.")
            if last.last_lines:
                self._on_event("Its last lines:")
            for line in last.last_lines:
                self._on_event(line)

    async def _employ(self, nursery: Nursery, number: int) -> Ending:
        order = msgspec.structs.replace(self._order, worker_id=new_worker_id())
        entry = self._roll.entry(number, order.worker_id)
        keeper = Keeper(
            self._queue,
            order,
            nursery,
            limits=self._limits,
            on_output=entry.printed,
            on_told=entry.told,
        )
        self._keepers[number] = keeper
        try:
            async with self._membership.joined(order.worker_id) if self._membership else nullcontext():
                entry.born()
                ending = entry.ended(await keeper.run())
            if ending.reason == "died":
                looking = watched(asyncio.create_task(self._look_after(order.worker_id)))
                self._lost[order.worker_id] = looking
            self._breaker.completed(self._completed)
            self._breaker.died(ending.killers)
            return ending
        finally:
            del self._keepers[number]
            self._past += keeper.tally
            self._past_completed += keeper.completed

    @property
    def _completed(self) -> int:
        return self._past_completed + sum(keeper.completed for keeper in self._keepers.values())

    async def _look_after(self, worker_id: str) -> None:
        for seconds in LATE_CLAIMS:
            await asyncio.sleep(seconds)
            await self._release(worker_id)

    async def _release(self, worker_id: str) -> None:
        try:
            await release_leases(self._queue, worker_id, once=once_steps(self._limits))
        except QueueError:
            return  # they run out
        except Exception as error:
            self._on_event(f"{DutyFailed('Releasing the leases of a dead worker', error)}. They run out.")

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
