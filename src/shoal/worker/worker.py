"""The worker's loop: claims ahead, handles many tasks at once, settles in batches; the three overlap."""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from shoal.core.errors import QueueError
from shoal.core.model import Bury, Fate, Grant, Lease, Outcome, Release, Run
from shoal.fetch.cache import Look
from shoal.queue.contract import Queue
from shoal.scrape.scraper import Scraper
from shoal.worker.background import Background
from shoal.worker.callers import Callers, Verdict
from shoal.worker.claiming import Claims
from shoal.worker.handling import Handling, Tools
from shoal.worker.line import Gone, Line, Progress
from shoal.worker.not_followed import NotFollowed
from shoal.worker.places import AT_ONCE, Places
from shoal.worker.retrying import Retrying
from shoal.worker.room import MOST_BYTES, Room
from shoal.worker.settlements import Settlements
from shoal.worker.share import Share
from shoal.worker.spending import Spending
from shoal.worker.stock import Start, Stock
from shoal.worker.tally import Tally

LOOK_AGAIN = 1.0  # seconds; other workers and producers may bring work at any time
LOOK_SOON = 0.02  # seconds; who has nothing left to do waits for the end of the run, which may be near
BACK_OFF = 0.05  # seconds
TELL_EVERY = 0.5
MOST_CALLS = 4  # that wait in a worker for each that it handles at once


class Stop(Enum):
    """How a worker is asked to stop."""

    FINISH = auto()  # what is in hand is finished, what was not started is handed back
    RELEASE = auto()  # everything is handed back at once


class Worker:
    """Works on one run until it is drained or told to stop."""

    def __init__(
        self,
        queue: Queue,
        run: Run,
        scraper: Scraper,
        tools: Tools,
        *,
        worker_id: str,
        lease: timedelta,
        at_once: int = AT_ONCE,
        slow_requests: int = 0,
        batch: int = 50,
        memory: int = MOST_BYTES,
        steps: Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        share: Share | None = None,
        line: Line | None = None,
        standby: bool = False,
    ) -> None:
        self.tally = Tally()
        self._queue, self._run, self._settings = queue, run, scraper.settings
        self._stock = Stock(run.settings.host_delay)
        # A worker that rests between its tasks has one at a time.
        self._at_once = 1 if self._settings.pause else at_once
        self._places = Places(
            self._at_once, 0 if self._settings.pause else slow_requests, self._place_is_free
        )
        self._handling = Handling(
            scraper, run, tools, self.tally, in_time=self._in_time, room=Room(memory), places=self._places
        )
        self._batch, self._share, self._lease = batch, share, lease
        self._claims = Claims(
            queue,
            run,
            worker_id,
            lease,
            steps=steps,
            partitions=partitions,
            share=share,
            max_pages=self._settings.max_pages,
        )
        self._claiming = Retrying("claim tasks", lease)
        self._spending = Spending(queue, scraper.first.gate, run.id)
        self._not_followed = NotFollowed(queue, scraper.first.gate, run.id, worker_id, self.tally)
        self._line = line or Line(None)
        self._settlements = Settlements(queue, self._settled, give_up_after=lease)
        self._background = Background()
        self._standby, self._callers = standby, Callers()
        self._numbers: dict[tuple[str, int], int] = {}  # of every lease in hand
        self._started: dict[int, Lease] = {}  # and not answered yet, by number
        self._running: set[asyncio.Task[None]] = set()
        self._looks: dict[int, asyncio.Task[Look | None]] = {}  # before the start, by number
        self._woken = asyncio.Event()
        self._spared = asyncio.Event()  # a host that need not be asked after all
        self._stop: Stop | None = None
        self._stopped = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._rest_until = 0.0
        self._idle = 0  # looks in a row that found nothing, with nothing in hand

    def stop(self, how: Stop) -> None:
        """Ask the worker to stop; asked again with RELEASE it does not finish anything."""
        if self._stop is Stop.RELEASE:
            return
        self._stop = how
        self._hand_back_stock()
        if how is Stop.RELEASE:
            for task in self._running:
                task.cancel()
        self._settlements.stop()
        self._stopped.set()
        self._woken.set()

    @property
    def in_hand(self) -> int:
        """How many leases it holds."""
        return len(self._numbers)

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self._stop is not None

    def take(self, lease: Lease, claimed_at: datetime | None) -> asyncio.Future[Verdict] | None:
        """Handle a lease that a caller brings, and tell what became of it; None where it is not taken."""
        is_known = (lease.task_id, lease.token) in self._numbers
        if is_known or self.is_stopping or self.in_hand >= MOST_CALLS * self._at_once:
            return None
        verdict = self._callers.wait_for(lease)
        self._take([lease], self._claims.clock.local(claimed_at, asyncio.get_running_loop().time()))
        return verdict

    async def set_clock(self) -> None:
        """Learn the store's time; raises the queue's error."""
        await self._claims.set_clock()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Do something beside the tasks; if it fails, the worker ends with its error."""
        return self._background.start(work, name)

    async def run(self) -> str:
        """Work until the run is drained, its budget is spent, or `stop`; return which.

        Raises the error of whatever fails, here or in the background: nothing of a worker ends unnoticed.
        """
        try:
            return await self._background.run(self._work())
        finally:
            self._line.tell(Progress(self.tally, len(self._numbers)))

    async def _work(self) -> str:
        settling = self.start(self._settlements.run(), "settling")
        self.start(self._tell(), "telling")
        self.start(self._spending.run(), "spending")
        self.start(self._not_followed.run(), "counting links that are not followed")
        if self._share:
            self.start(self._follow_plan(self._share), "following the plan")
        reason = await (self._stand_by() if self._standby else self._claim_until_end())
        while self._running:
            await asyncio.wait(self._running)
        # A task that is cancelled before its first step never comes to hand its lease back.
        for lease in self._started.values():
            self._settlements.put(Release(lease))
        self._settlements.close()
        await settling
        with suppress(QueueError):
            await self._not_followed.tell()
        return reason

    async def _stand_by(self) -> str:
        while self._stop is None:
            self._woken.clear()
            await self._pause(LOOK_AGAIN)
        return "stopped"

    async def _claim_until_end(self) -> str:
        if self._run.settings.host_delay:
            with suppress(QueueError):  # the first claim shows what is the matter
                await self.set_clock()
        while self._stop is None:
            await self._settlements.room()
            # Before the look, not after it: what happens meanwhile may be what the next one waits for.
            self._woken.clear()
            self._spared.clear()
            if self._places.is_stuck:
                self._hand_back_stock()  # others may have room for it
            limit, full = self._wanted()
            if limit < max(1, full // 2) and self._numbers:
                await self._pause(LOOK_AGAIN)
                continue
            try:
                grant = await self._claim(limit)
            except QueueError as error:
                await self._wait_for_queue(self._claiming.failed(error))
                continue
            self._claiming.succeeded()
            if grant is None:
                return "budget"
            if grant.drained:
                return "drained"
            if grant.outdated:
                if self._share:
                    await self._keep_to_plan(self._share)
                continue
            if not grant.leases:
                await self._leave_to_others()
                self._idle = 0 if self._numbers else self._idle + 1
                await self._pause(until_next_look(grant, self._idle))
        return "stopped"

    async def _claim(self, limit: int) -> Grant | None:
        """Claim up to so many tasks and take them in hand; None where the run may have no more pages."""
        limit = await self._claims.allowed(limit)
        if limit <= 0:
            return Grant() if self._numbers else await self._claims.end_at_budget()
        claimed = await self._claims.claim(limit)
        if claimed.grant.leases:
            self._idle = 0
            self._take(claimed.grant.leases, claimed.at, is_valid=claimed.is_valid)
        return claimed.grant

    async def _leave_to_others(self) -> None:
        # Where many workers wait for the same hosts, all look when one is free, and all but one in vain.
        # A worker that has something to start is in no hurry.
        if self._stock:
            with suppress(TimeoutError):
                async with asyncio.timeout(random.uniform(0, BACK_OFF)):
                    await self._spared.wait()

    def _wanted(self) -> tuple[int, int]:
        """Return how many more leases are worth holding, and how many if there were none."""
        ahead = 0 if self._settings.pause else self._places.ahead(self._batch)
        most = self._at_once + ahead
        return min(self._batch, most - self._places.taken - len(self._stock)), min(self._batch, most)

    def _take(self, leases: Sequence[Lease], claimed_at: float, *, is_valid: bool = True) -> None:
        numbers = self._line.took(leases)
        self._numbers.update(zip(((lease.task_id, lease.token) for lease in leases), numbers, strict=True))
        # While the answer was on its way the plan may have changed, or all that it brings run out.
        age = asyncio.get_running_loop().time() - claimed_at + self._claims.clock.doubt
        is_usable = is_valid and age <= self._lease.total_seconds()
        wanted = [] if not is_usable else [lease for lease in leases if self._may_start(lease)]
        if len(wanted) < len(leases):
            for lease in leases:
                if lease not in wanted:
                    self._settlements.put(Release(lease, asked=False))
            self._settlements.flush()
            leases = wanted
        self._stock.put(leases, claimed_at)
        self._look_ahead(leases)
        self._start_due()

    def _look_ahead(self, leases: Sequence[Lease]) -> None:
        """Look for pages that are at hand: their hosts are not asked, and they need not wait for them."""
        for lease in filter(self._handling.may_be_kept, leases):
            number = self._numbers[lease.task_id, lease.token]
            self._looks[number] = self._background.start(self._look(lease, number))

    async def _look(self, lease: Lease, number: int) -> Look | None:
        look = await self._handling.look(lease, number)
        if look and look.page:
            self._stock.hasten(lease)
            self._start_due()
        return look

    def _may_start(self, lease: Lease) -> bool:
        is_mine = self._share is None or lease.task.partition in self._share.partitions
        return is_mine and self._stop is None

    async def _follow_plan(self, share: Share) -> None:
        while True:
            await self._keep_to_plan(share)
            await asyncio.sleep(share.look_every)

    async def _keep_to_plan(self, share: Share) -> None:
        """Learn what to claim from now on; when others wait for what was taken away, let go of it."""
        before = share.partitions
        with suppress(QueueError):
            if await share.look():
                self._hand_back_stock()
                self._settlements.flush()
        self._start_due()
        if share.partitions != before:
            self._woken.set()

    def _hand_back_stock(self) -> None:
        for lease in self._stock.empty():
            number = self._numbers[lease.task_id, lease.token]
            if number in self._looks:
                self._looks.pop(number).cancel()
                self._handling.forget(number)
            self._settlements.put(Release(lease, asked=False))

    async def _pause(self, seconds: float) -> None:
        """Wait until something has happened since the last look, and no longer than this."""
        if self._stop is None:
            # Whoever wakes the worker sets the event; a timer is cheaper than a task.
            timer = asyncio.get_running_loop().call_later(seconds, self._woken.set)
            await self._woken.wait()
            timer.cancel()

    async def _wait_for_queue(self, seconds: float) -> None:
        """Wait before the next try of a claim that failed, whatever else happens but a stop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()

    def _start_due(self) -> None:
        """Start what is due, as far as there is room, and set the clock for what is not."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        # Else it may have been given up for dead, and others have its partitions.
        may_start = not self._share or self._share.is_fresh(now)
        while (
            may_start and self._places.is_free and now >= self._rest_until and (start := self._stock.pop(now))
        ):
            lease = start.lease
            number = self._numbers[lease.task_id, lease.token]
            self._places.take(number)
            self._started[number] = lease
            task = self._background.start(self._handle(start, number))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        if self._timer:
            self._timer.cancel()
            self._timer = None
        due = self._stock.next_due()
        if due is not None and may_start and self._places.is_free:
            self._timer = loop.call_at(max(due, self._rest_until), self._start_due)

    async def _handle(self, start: Start, number: int) -> None:
        try:
            look = self._looks.pop(number, None)
            outcome = await self._handling.outcome(start, number, await look if look else None)
        except asyncio.CancelledError:
            self._handling.forget(number)
            outcome = self._let_go(start.lease)
        self._answer(number, outcome)

    def _let_go(self, lease: Lease) -> Outcome:
        """Return what becomes of a task that was begun, when all is to be handed back at once."""
        if self._handling.at_most_once(lease.task):
            return Bury(lease, "Stopped: its worker was told to let go of it, and it is tried once at most")
        return Release(lease)

    def _place_is_free(self) -> None:
        self._start_due()
        self._woken.set()

    def _in_time(self, start: Start) -> bool:
        return self._stock.in_time(start, asyncio.get_running_loop().time())

    def _answer(self, number: int, outcome: Outcome) -> None:
        del self._started[number]
        self._places.leave(number)
        self._rest()
        # With nothing left to start, the next claim may be waiting for what this frees at its host.
        is_waited_for = self._standby or not self._stock or self._spares_host(outcome)
        self._settlements.hurry = is_waited_for
        self._settlements.put(self._callers.withhold(outcome))
        self._start_due()
        if len(self._stock) <= self._batch // 2:
            self._woken.set()

    def _spares_host(self, outcome: Outcome) -> bool:
        return not outcome.asked and bool(self._run.settings.host_delay)

    def _rest(self) -> None:
        if self._settings.pause:
            shortest, longest = (bound.total_seconds() for bound in self._settings.pause)
            self._rest_until = asyncio.get_running_loop().time() + random.uniform(shortest, longest)

    def _settled(self, outcomes: Sequence[Outcome], fates: Sequence[Fate]) -> None:
        numbers, before = [], self.tally.pages
        for outcome, fate in zip(outcomes, fates, strict=True):
            number = self._numbers.pop((outcome.lease.task_id, outcome.lease.token), None)
            if number is not None:
                numbers.append(number)
            self.tally.count(outcome, fate)
            self._callers.tell(outcome, fate)
            if self._spares_host(outcome):
                self._spared.set()
        self._line.tell(Gone(numbers, self.tally.pages - before))
        self._woken.set()

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(TELL_EVERY)
            self._line.tell(Progress(self.tally, len(self._numbers)))


def until_next_look(grant: Grant, idle: int) -> float:
    """Return how long to wait after a look that found nothing, `idle` of them in a row without work."""
    if grant.next_due is not None and grant.next_due.total_seconds() < LOOK_AGAIN:
        return max(grant.next_due.total_seconds(), 0.001)
    return min(LOOK_SOON * 2 ** min(idle, 10), LOOK_AGAIN) if idle else LOOK_AGAIN
