"""Claims: Redis decides; where it lacks the bodies of tasks that may start, their bundles are fetched."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import NamedTuple

import msgspec

from shoal.core.errors import QueueError
from shoal.core.model import SECOND, Grant, Lease
from shoal.queue.encoding import duration, moment
from shoal.queue.rabbitmq.state import ScriptReply
from shoal.queue.redis.claim import MAX_TASKS, claim_arguments, shift_lease
from shoal.queue.redis.records import ClaimHead, read_claim
from shoal.queue.requests import ClaimRequest

# All in seconds
RECEIVE_TIMEOUT = SECOND  # that one claim may spend on receiving bundles
RECEIVE_TIMEOUT_WITH_LEASES = SECOND / 4  # the same, once tasks have been leased: their time is running
RESEND_TIMEOUT = SECOND / 4  # that a claim waits for overdue bundles to be sent
MIN_PAUSE, MAX_PAUSE = 0.005, 0.05  # seconds between two attempts to receive a bundle
PRIORITIES = 10
SOON = timedelta(seconds=0.1)


class ClaimShortfall(NamedTuple):
    """What a claim lacks: the route of the bundles, and when there may be more."""

    route: int
    must: int
    due: int
    overdue: int
    number: int


RunScript = Callable[..., Awaitable[ScriptReply]]
Receive = Callable[[int, int, int], Awaitable[int]]
ReportEmpty = Callable[[int, int], Awaitable[None]]


class TimeBudget(msgspec.Struct):
    """The time that a call may still spend on receiving bundles."""

    end: float  # by the event loop's clock

    @classmethod
    def start(cls, duration: timedelta) -> "TimeBudget":
        return cls(asyncio.get_running_loop().time() + duration.total_seconds())

    @property
    def left(self) -> float:
        """The rest in seconds."""
        return self.end - asyncio.get_running_loop().time()

    def shorten(self, duration: timedelta) -> None:
        """Leave at most this much."""
        self.end = min(self.end, asyncio.get_running_loop().time() + duration.total_seconds())


class RabbitClaim:
    """One claim.

    `run_script` calls the script, `receive` receives bundles, `resend` sends overdue ones, `report_empty`
    reports that the broker has nothing on a route.
    """

    def __init__(
        self,
        request: ClaimRequest,
        run_script: RunScript,
        receive: Receive,
        resend: Callable[[timedelta], Awaitable[None]],
        report_empty: ReportEmpty,
    ) -> None:
        self._request, self._run_script, self._receive, self._resend = request, run_script, receive, resend
        self._report_empty = report_empty
        self._limit = min(request.limit, MAX_TASKS)
        self._leases: list[Lease] = []
        self._first: int | None = None  # the store's time when the first of them were leased
        self._ignore_due = False  # whether to claim without due bundles, because they cannot be received
        self._exhausted = bytearray(b"0" * PRIORITIES)
        self._pause = MIN_PAUSE

    async def grant(self) -> Grant:
        """Return the leases, and when there may be more."""
        budget = TimeBudget.start(RECEIVE_TIMEOUT)
        head, shortfall = await self._claim()
        while True:
            if head.outdated:
                # The leases it has were granted while the fence was valid.
                return self._make_grant(head, -1) if self._leases else Grant(outdated=True)
            if shortfall.overdue and not self._leases:
                await self._resend(RESEND_TIMEOUT)
            if self._is_done(head, shortfall):
                return self._make_grant(head, shortfall.due)
            if shortfall.route >= 0 and not await self._receive_missing(shortfall, budget):
                return self._make_grant(head, shortfall.due)
            try:
                head, shortfall = await self._claim()
            except QueueError:
                if not self._leases:
                    raise
                return self._make_grant(head, shortfall.due)  # what was leased before must not be lost

    def _is_done(self, head: ClaimHead, shortfall: ClaimShortfall) -> bool:
        if len(self._leases) >= self._limit:
            return True
        return shortfall.route < 0 and (bool(self._leases) or not head.more)

    async def _claim(self) -> tuple[ClaimHead, ClaimShortfall]:
        wanted = self._limit - len(self._leases)
        arguments = claim_arguments(self._request, wanted, 0)
        reply = await self._run_script(*arguments, int(self._ignore_due), bytes(self._exhausted))
        head, leases = read_claim(reply.result, self._request.run_id)
        if leases:
            self._first = head.now if self._first is None else self._first
            self._leases += [shift_lease(lease, duration(head.now - self._first)) for lease in leases]
        return head, ClaimShortfall(*map(int, reply.extra))

    async def _receive_missing(self, shortfall: ClaimShortfall, budget: TimeBudget) -> bool:
        """Receive what the claim lacks, or wait for it a little; False when there is no time left."""
        if self._leases:
            budget.shorten(RECEIVE_TIMEOUT_WITH_LEASES)
        if budget.left <= 0:
            return False
        enough = 1 if shortfall.must else self._limit - len(self._leases)
        if await self._receive_in_time(shortfall, enough, budget):
            self._pause = MIN_PAUSE
        elif self._pause <= MAX_PAUSE:
            # Another worker holds it, or it has not arrived yet.
            await asyncio.sleep(self._pause)
            self._pause *= 2
        else:
            await self._continue_without(shortfall)
        return True

    async def _receive_in_time(self, shortfall: ClaimShortfall, enough: int, budget: TimeBudget) -> int:
        if not self._leases:
            return await self._receive(shortfall.number, shortfall.route, enough)
        try:
            async with asyncio.timeout(budget.left):
                return await self._receive(shortfall.number, shortfall.route, enough)
        except (TimeoutError, QueueError):
            return 0  # the leases of this claim must not be lost for it

    async def _continue_without(self, shortfall: ClaimShortfall) -> None:
        self._pause = MIN_PAUSE
        if not self._leases:
            await self._report_empty(shortfall.number, shortfall.route)
        if shortfall.must:
            self._ignore_due = True
        else:
            self._exhausted[shortfall.route : shortfall.route + 1] = b"1"

    def _make_grant(self, head: ClaimHead, due: int) -> Grant:
        waits = [duration(count) for count in (head.next_due, due) if count >= 0]
        if self._ignore_due or b"1" in self._exhausted:
            waits = [max(SOON, min(waits, default=SOON))]
        drained = head.drained and not self._leases
        return Grant(
            leases=self._leases,
            next_due=min(waits, default=None),
            drained=drained,
            claimed_at=moment(head.now if self._first is None else self._first),
        )
