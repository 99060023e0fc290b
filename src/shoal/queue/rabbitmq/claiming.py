"""Claims: Redis judges; where it lacks the bodies of tasks that may start, they are brought ashore first."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

from shoal.core.errors import QueueError
from shoal.core.model import Grant, Lease
from shoal.queue.rabbitmq.memory import Told
from shoal.queue.redis.claiming import MOST, Wish
from shoal.queue.redis.wire import ClaimHead, duration, moment, read_claim

LONGEST = 1.0  # seconds that one claim may spend on bringing bundles ashore
LONGEST_WITH_LEASES = 0.25  # the same, once tasks have been handed out: their time is running
FIRST_NAP, LONGEST_NAP = 0.005, 0.05
PRIORITIES = 10
SOON = timedelta(seconds=0.1)
LONGEST_SWEEP = 0.25  # seconds that a claim waits for overdue bundles to be sent


class Outlook(NamedTuple):
    """What the river has for a claim: the way of bundles that it lacks, and when there may be more."""

    way: int
    must: int
    due: int
    overdue: int
    number: int


Ask = Callable[..., Awaitable[Told]]
Land = Callable[[int, int, int], Awaitable[int]]
FoundEmpty = Callable[[int, int], Awaitable[None]]


@dataclass(slots=True)
class Clock:
    """How long a claim may still look for bundles."""

    end: float

    @classmethod
    def start(cls, seconds: float) -> "Clock":
        return cls(asyncio.get_running_loop().time() + seconds)

    @property
    def left(self) -> float:
        return self.end - asyncio.get_running_loop().time()

    def shorten(self, seconds: float) -> None:
        """Leave at most this much."""
        self.end = min(self.end, asyncio.get_running_loop().time() + seconds)


class Claiming:
    """One claim.

    `ask` calls the script, `land` brings bundles ashore, `sweep` sends what is overdue, `found_empty` reports
    that the broker has nothing on a way.
    """

    def __init__(
        self,
        wish: Wish,
        ask: Ask,
        land: Land,
        sweep: Callable[[float], Awaitable[None]],
        found_empty: FoundEmpty,
    ) -> None:
        self._wish, self._ask, self._land, self._sweep = wish, ask, land, sweep
        self._found_empty = found_empty
        self._limit = min(wish.limit, MOST)
        self._leases: list[Lease] = []
        self._first: int | None = None  # the store's time when the first of them were leased
        self._blind = False  # to bundles whose time has come, when they cannot be had
        self._dry = bytearray(b"0" * PRIORITIES)
        self._nap = FIRST_NAP

    async def grant(self) -> Grant:
        """Return the leases, and what may be expected."""
        clock = Clock.start(LONGEST)
        while True:
            head, outlook = await self._claim()
            if head.outdated:
                # What it has was handed out while the note stood.
                return self._granted(head, -1) if self._leases else Grant(outdated=True)
            if outlook.overdue and not self._leases:
                await self._sweep(LONGEST_SWEEP)
            if self._is_done(head, outlook):
                return self._granted(head, outlook.due)
            if outlook.way >= 0 and not await self._fetch(outlook, clock):
                return self._granted(head, outlook.due)

    def _is_done(self, head: ClaimHead, outlook: Outlook) -> bool:
        if len(self._leases) >= self._limit:
            return True
        return outlook.way < 0 and (bool(self._leases) or not head.more)

    async def _claim(self) -> tuple[ClaimHead, Outlook]:
        wanted = self._limit - len(self._leases)
        told = await self._ask(*self._wish.arguments(wanted, 0), int(self._blind), bytes(self._dry))
        head, leases = read_claim(told.answer, self._wish.run_id)
        if leases:
            self._first = head.now if self._first is None else self._first
            self._leases += [_put_off(lease, duration(head.now - self._first)) for lease in leases]
        return head, Outlook(*map(int, told.extra))

    async def _fetch(self, outlook: Outlook, clock: Clock) -> bool:
        """Bring ashore what the claim lacks, or wait for it a little; False when there is no time left."""
        if self._leases:
            clock.shorten(LONGEST_WITH_LEASES)
        if clock.left <= 0:
            return False
        enough = 1 if outlook.must else self._limit - len(self._leases)
        if await self._land_in_time(outlook, enough, clock):
            self._nap = FIRST_NAP
        elif self._nap <= LONGEST_NAP:
            # It is in somebody else's hands, or not there yet.
            await asyncio.sleep(self._nap)
            self._nap *= 2
        else:
            await self._go_without(outlook)
        return True

    async def _land_in_time(self, outlook: Outlook, enough: int, clock: Clock) -> int:
        if not self._leases:
            return await self._land(outlook.number, outlook.way, enough)
        try:
            async with asyncio.timeout(clock.left):
                return await self._land(outlook.number, outlook.way, enough)
        except (TimeoutError, QueueError):
            return 0  # what has been handed out must not be lost for it

    async def _go_without(self, outlook: Outlook) -> None:
        self._nap = FIRST_NAP
        if not self._leases:
            await self._found_empty(outlook.number, outlook.way)
        if outlook.must:
            self._blind = True
        else:
            self._dry[outlook.way : outlook.way + 1] = b"1"

    def _granted(self, head: ClaimHead, due: int) -> Grant:
        waits = [duration(count) for count in (head.next_due, due) if count >= 0]
        if self._blind or b"1" in self._dry:
            waits = [max(SOON, min(waits, default=SOON))]
        drained = head.drained and not self._leases
        return Grant(
            leases=self._leases,
            next_due=min(waits, default=None),
            drained=drained,
            claimed_at=moment(head.now if self._first is None else self._first),
        )


def _put_off(lease: Lease, later: timedelta) -> Lease:
    """Count the durations of a lease from the first of its grant."""
    if not later:
        return lease
    return replace(lease, start_in=lease.start_in + later, deadline_in=lease.deadline_in + later)
