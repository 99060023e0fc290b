"""Workers of this machine whose number changes: each is started, restarted and let go on its own."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from shoal.core.errors import QueueError
from shoal.core.model import Run
from shoal.core.tasks import restarted, watched
from shoal.fleet.crew import Crew, CrewEnding
from shoal.fleet.launch import Job, lock_of
from shoal.fleet.logs import NO_LIBRARY, Library
from shoal.fleet.whereabouts import hand_back
from shoal.queue.contract import Queue
from shoal.worker.nursery import Nursery
from shoal.worker.tally import Tally

# What a worker that is let go has for the tasks in hand, and for handing them back.
GRACE, LAST_GRACE = 30.0, 5.0
FIRST_REST, LONGEST_REST = 15.0, 300.0  # after a worker that was given up


class SharedNursery(Nursery):
    """A nursery that serves many crews, and stays when one of them has ended; `close` ends it."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


class Nobody:
    """Has no workers, and starts none: for a look at what a run could use."""

    async def count(self) -> int:
        """Return zero."""
        return 0

    async def set(self, count: int) -> None:
        """Do nothing."""


@dataclass(slots=True, eq=False)
class _Place:
    """One worker, or the ones that take its place when it dies."""

    number: int
    crew: Crew
    task: asyncio.Task[CrewEnding]
    leaving: asyncio.Task[None] | None = None


class LocalWorkers:
    """Has a number of worker processes on one run; leave its context to end all of them."""

    def __init__(
        self,
        queue: Queue,
        job: Job,
        run: Run,
        *,
        nursery: SharedNursery | None = None,
        on_event: Callable[[str], None] = lambda text: None,
        on_output: Callable[[str], None] = lambda line: None,
        logs: Library = NO_LIBRARY,
    ) -> None:
        self._logs = logs
        self._queue, self._job, self._run = queue, replace(job, joins=True), run
        self._lock = lock_of(queue, self._job, run.id)
        self._nursery, self._on_event, self._on_output = nursery, on_event, on_output
        self._places: set[_Place] = set()
        self._past = Tally()
        self._stops = 0
        self._rest, self._rest_until = FIRST_REST, 0.0

    async def __aenter__(self) -> Self:
        await self._lock.__aenter__()
        self._nursery = self._nursery or SharedNursery()
        await hand_back(self._queue, self._run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await asyncio.gather(*(self._let_go(place) for place in list(self._places)))
        finally:
            if self._nursery:
                self._nursery.close()
            await self._lock.__aexit__(kind, error, trace)

    @property
    def in_hand(self) -> int:
        """How many leases the workers hold."""
        return sum(place.crew.in_hand for place in self._places)

    @property
    def pids(self) -> list[int]:
        """The processes of the workers, also of those that are leaving."""
        return [pid for place in self._places for pid in place.crew.pids]

    @property
    def tally(self) -> Tally:
        """What all workers have done so far."""
        return sum((place.crew.tally for place in self._places), self._past)

    async def count(self) -> int:
        """Return how many workers there are, without those that are on their way out."""
        return len(self._staying())

    async def set(self, count: int) -> None:
        """Start what is missing, and let those go that have the least in hand."""
        staying = sorted(self._staying(), key=lambda place: place.crew.in_hand)
        for place in staying[: max(0, len(staying) - count)]:
            self._dismiss(place)
        if self._stops or time.monotonic() < self._rest_until:
            return
        for _ in range(count - len(staying)):
            self._hire()

    def stop(self) -> int:
        """Let all finish; the second time they hand back what they have, the third time they are killed."""
        self._stops += 1
        for place in self._places:
            place.crew.stop()
        return self._stops

    async def ended(self) -> None:
        """Wait until no worker is left."""
        while self._places:
            await asyncio.wait([place.task for place in self._places])
            await asyncio.sleep(0)

    def _dismiss(self, place: _Place) -> None:
        duty = restarted("Ending a worker", lambda: self._let_go(place), self._on_event)
        place.leaving = watched(asyncio.create_task(duty))

    def _staying(self) -> list[_Place]:
        return [place for place in self._places if place.leaving is None and not place.task.done()]

    def _hire(self) -> None:
        job, taken = self._job, {place.number for place in self._places}
        number = next(free for free in range(len(taken) + 1) if free not in taken)
        crew = Crew(
            self._queue,
            job.order(self._run),
            1,
            limits=job.limits(),
            lock=self._lock,
            nursery=self._nursery,
            on_event=self._on_event,
            on_output=self._on_output,
            logs=self._logs,
            first=number,
        )
        place = _Place(number, crew, asyncio.create_task(crew.run()))
        self._places.add(place)
        place.task.add_done_callback(lambda task: self._gone(place, task))

    def _gone(self, place: _Place, task: asyncio.Task[CrewEnding]) -> None:
        self._places.discard(place)
        self._past += place.crew.tally
        if task.cancelled():
            return
        if error := task.exception():
            self._hold_off(str(error))
        elif failures := task.result().failures:
            self._hold_off(failures[-1])
        else:
            self._rest, self._rest_until = FIRST_REST, 0.0

    def _hold_off(self, why: str) -> None:
        """Start nobody for a while: a worker that cannot work would only be given up again."""
        self._rest_until = time.monotonic() + self._rest
        for line in (f"A worker was given up, and the next waits {self._rest:g} s:", *why.splitlines()):
            self._on_event(line)
        self._rest = min(2 * self._rest, LONGEST_REST)

    async def _let_go(self, place: _Place) -> None:
        """Ask a worker to finish, then to hand back, then no more."""
        for grace in (GRACE, LAST_GRACE, None):
            place.crew.stop()
            with suppress(QueueError):
                done, _ = await asyncio.wait([place.task], timeout=grace)
                if done:
                    return
