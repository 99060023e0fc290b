"""Claims: one call on a plain server; on a cluster the shards are called in the order of their priorities."""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from shoal.core.errors import QueueError
from shoal.core.model import Grant, Lease
from shoal.core.pacing import BURST_HORIZON
from shoal.queue.encoding import duration, micros, moment
from shoal.queue.redis.records import ClaimHead, pack, read_claim
from shoal.queue.requests import ClaimRequest

MAX_TASKS = 5_000  # leases of one call
CLAIM_TIME_SECONDS = 1.0  # for further calls of one claim that has found only expired tasks
CLOCK_SAMPLES = 64  # replies from which the offset of a node's clock is estimated
CallScript = Callable[..., Awaitable[Any]]
# Of a run: the shards whose outbox must be delivered, and those that must deliver once more.
Forward = Callable[[str, Sequence[int], Sequence[int]], Awaitable[None]]


class ShardClocks:
    """Converts the time of a cluster's node to this process's clock.

    Nodes have clocks of their own. The quickest of many replies shows the offset of one; a reply is never
    older than its request, also where a clock was set back.
    """

    def __init__(self) -> None:
        self._offsets: dict[int, deque[float]] = {}

    def local(self, shard: int, now: int, sent_at: float, received_at: float) -> float:
        """Return the moment `now` of a shard (microseconds), in seconds of the event loop's clock."""
        theirs = now / 1_000_000
        offsets = self._offsets.setdefault(shard, deque(maxlen=CLOCK_SAMPLES))
        offsets.append(received_at - theirs)
        return min(received_at, max(sent_at, theirs + min(offsets)))


def claim_arguments(request: ClaimRequest, limit: int, min_priority: int) -> tuple[Any, ...]:
    """Return the arguments of `claim.lua`."""
    filters = [False if names is None else list(names) for names in (request.steps, request.partitions)]
    fence = request.fence and (*request.fence[:2], str(request.fence[2]))
    packed = pack([*filters, fence or False, micros(request.lead)])
    return (request.worker_id, limit, micros(request.lease), micros(BURST_HORIZON), min_priority, packed)


class RedisClaim:
    """One claim; `call` runs the script on a shard, `forward` delivers the outboxes of shards."""

    def __init__(
        self,
        request: ClaimRequest,
        shards: int,
        call: CallScript,
        forward: Forward,
        clocks: ShardClocks,
    ) -> None:
        self._request, self._shards, self._call, self._forward = request, shards, call, forward
        self._clocks = clocks
        self._limit = min(request.limit, MAX_TASKS)
        self._peeked = (0, 0.0)  # when the first shard was read, by its clock and by ours
        self._first: float | None = None  # when the first tasks were leased, by our clock
        self._ends = asyncio.get_running_loop().time() + CLAIM_TIME_SECONDS

    async def grant(self) -> Grant:
        """Return the leases, and when there may be more."""
        return await (self._claim_plain() if self._shards == 1 else self._claim_cluster())

    async def _claim_plain(self) -> Grant:
        while True:
            head, leases = await self._claim(0, self._limit, 0)
            # A script ends early rather than block the server: `more` says that it has not seen everything.
            if head.outdated:
                return Grant(outdated=True)
            if leases or not head.more or self._is_over():
                return _make_grant(leases, [head], head.drained, head.now)

    async def _claim_cluster(self) -> Grant:
        heads = await self._peek()
        # Tasks on their way to another shard come first: they may have the highest priority, and a run with
        # one of them is not drained.
        full = [shard for shard, head in enumerate(heads) if head.outbox]
        delivered = [shard for shard, head in enumerate(heads) if head.redelivers]
        if full or delivered:
            await self._forward(self._request.run_id, full, delivered)
            heads = await self._peek()
        leases = await self._claim_by_priority(heads)
        drained = not leases and await self._is_drained(heads)
        now, peeked_at = self._peeked
        later = 0.0 if self._first is None else self._first - peeked_at
        return _make_grant(leases, heads, drained, now + round(later * 1_000_000))

    async def _claim_by_priority(self, heads: list[ClaimHead]) -> list[Lease]:
        """Claim the highest priority of all shards first, then the next."""
        leases: list[Lease] = []
        while len(leases) < self._limit:
            highest = max(head.highest for head in heads)
            if highest < 0:
                break
            # By chance among those with the highest priority: workers must not all call the same shard.
            shard = random.choice([n for n, head in enumerate(heads) if head.highest == highest])
            try:
                heads[shard], got = await self._claim(shard, self._limit - len(leases), highest)
            except QueueError:
                if not leases:
                    raise
                break  # the leases of other shards must not be lost for it
            leases += got
            if self._is_over():
                break
        return leases

    def _is_over(self) -> bool:
        """Return whether the time of this claim is over; the next one continues."""
        return asyncio.get_running_loop().time() > self._ends

    async def _is_drained(self, heads: list[ClaimHead]) -> bool:
        """Return whether no shard has a task left.

        A task may have moved from a shard not yet read to one that was: so all are read twice, and nothing
        may have moved in between.
        """
        if not all(head.drained for head in heads):
            return False
        again = await self._peek()
        return all(head.drained for head in again) and [head.moves for head in again] == [
            head.moves for head in heads
        ]

    async def _peek(self) -> list[ClaimHead]:
        replies = await asyncio.gather(*(self._claim(shard, 0, 0) for shard in range(self._shards)))
        return [head for head, _ in replies]

    async def _claim(self, shard: int, limit: int, min_priority: int) -> tuple[ClaimHead, list[Lease]]:
        sent_at = asyncio.get_running_loop().time()
        arguments = claim_arguments(self._request, limit, min_priority)
        reply = await self._call(shard, limit > 0, self._request.run_id, *arguments)
        head, leases = read_claim(reply, self._request.run_id)
        if self._shards == 1:
            return head, leases
        at = self._clocks.local(shard, head.now, sent_at, asyncio.get_running_loop().time())
        if shard == 0 and limit == 0:
            self._peeked = (head.now, at)
        return head, self._shift_to_first(leases, at)

    def _shift_to_first(self, leases: list[Lease], at: float) -> list[Lease]:
        """Count the durations of leases from the first lease of their grant."""
        if leases and self._first is None:
            self._first = at
        if not leases or at == self._first:
            return leases
        later = timedelta(seconds=at - (self._first or at))
        return [shift_lease(lease, later) for lease in leases]


def _make_grant(leases: list[Lease], heads: Sequence[ClaimHead], drained: bool, now: int) -> Grant:
    due = min((head.next_due for head in heads if head.next_due >= 0), default=None)
    next_due = None if due is None else duration(due)
    return Grant(leases=leases, next_due=next_due, drained=drained, claimed_at=moment(now))


def shift_lease(lease: Lease, later: timedelta) -> Lease:
    """Count the durations of a lease from an earlier moment; a task without a host starts at once."""
    if not later or lease.task.url is None:
        return lease
    return msgspec.structs.replace(
        lease, start_in=lease.start_in + later, deadline_in=lease.deadline_in + later
    )
