"""Claims: one call on a plain server; on a cluster the shards are asked in the order of what they have."""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from shoal.core.model import Grant, Lease
from shoal.core.pacing import BURST_HORIZON
from shoal.queue.contract import Fence
from shoal.queue.redis.wire import ClaimHead, duration, micros, moment, pack, read_claim

MOST = 5_000  # leases of one call
SAMPLES = 64  # answers by which a shard's clock is judged
Ask = Callable[..., Awaitable[Any]]
# Of a run: the shards whose outbox is to be emptied, and those that are to deliver once more.
Forward = Callable[[str, Sequence[int], Sequence[int]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a worker asks for."""

    worker_id: str
    run_id: str
    limit: int
    lease: timedelta
    steps: Sequence[str] | None
    partitions: Sequence[str] | None
    fence: Fence | None = None

    def arguments(self, limit: int, lowest: int) -> tuple[Any, ...]:
        """Return what `claim.lua` reads."""
        narrow = [False if names is None else list(names) for names in (self.steps, self.partitions)]
        fence = self.fence and (*self.fence[:2], str(self.fence[2]))
        wanted = pack([*narrow, fence or False])
        return (self.worker_id, limit, micros(self.lease), micros(BURST_HORIZON), lowest, wanted)


class ShardClocks:
    """When, by this process's clock, a shard said its time.

    The nodes of a cluster have clocks of their own. The quickest of many answers shows how far one is from
    ours; an answer is never older than its question, whatever a clock says that was set back.
    """

    def __init__(self) -> None:
        self._apart: dict[int, deque[float]] = {}

    def local(self, shard: int, now: int, asked_at: float, heard_at: float) -> float:
        """Return when a shard said `now`, in seconds of the event loop's clock."""
        said = now / 1_000_000
        apart = self._apart.setdefault(shard, deque(maxlen=SAMPLES))
        apart.append(heard_at - said)
        return min(heard_at, max(asked_at, said + min(apart)))


class Claiming:
    """One claim; `ask` calls the script on a shard, `forward` hands over what shards have sent."""

    def __init__(self, wish: Wish, shards: int, ask: Ask, forward: Forward, clocks: ShardClocks) -> None:
        self._wish, self._shards, self._ask, self._forward = wish, shards, ask, forward
        self._clocks = clocks
        self._limit = min(wish.limit, MOST)
        self._looked = (0, 0.0)  # at the first shard, by its clock and by ours
        self._first: float | None = None  # when the first tasks were leased, by our clock

    async def grant(self) -> Grant:
        """Return the leases, and what may be expected."""
        return await (self._plain() if self._shards == 1 else self._spread())

    async def _plain(self) -> Grant:
        while True:
            head, leases = await self._claim(0, self._limit, 0)
            if head.outdated:
                return Grant(outdated=True)
            if leases or not head.more:
                return _granted(leases, [head], head.drained, head.now)

    async def _spread(self) -> Grant:
        heads = await self._look()
        full = [shard for shard, head in enumerate(heads) if head.outbox]
        ripe = [shard for shard, head in enumerate(heads) if head.ripe]
        if full or ripe:
            await self._forward(self._wish.run_id, full, ripe)
            heads = await self._look()
        leases = await self._gather(heads)
        drained = not leases and await self._drained(heads)
        now, looked_at = self._looked
        later = 0.0 if self._first is None else self._first - looked_at
        return _granted(leases, heads, drained, now + round(later * 1_000_000))

    async def _gather(self, heads: list[ClaimHead]) -> list[Lease]:
        """Claim the highest priority of all shards first, then the next."""
        leases: list[Lease] = []
        while len(leases) < self._limit:
            highest = max(head.highest for head in heads)
            if highest < 0:
                break
            shard = random.choice([n for n, head in enumerate(heads) if head.highest == highest])
            heads[shard], got = await self._claim(shard, self._limit - len(leases), highest)
            leases += got
        return leases

    async def _drained(self, heads: list[ClaimHead]) -> bool:
        """Say whether nothing is left anywhere.

        A task may have gone from a shard not yet looked at to one that was: so all are looked at twice,
        and nothing may have moved in between.
        """
        if not all(head.drained for head in heads):
            return False
        again = await self._look()
        return all(head.drained for head in again) and [head.moves for head in again] == [
            head.moves for head in heads
        ]

    async def _look(self) -> list[ClaimHead]:
        answers = await asyncio.gather(*(self._claim(shard, 0, 0) for shard in range(self._shards)))
        return [head for head, _ in answers]

    async def _claim(self, shard: int, limit: int, lowest: int) -> tuple[ClaimHead, list[Lease]]:
        asked_at = asyncio.get_running_loop().time()
        answer = await self._ask(shard, limit > 0, self._wish.run_id, *self._wish.arguments(limit, lowest))
        head, leases = read_claim(answer, self._wish.run_id)
        if self._shards == 1:
            return head, leases
        at = self._clocks.local(shard, head.now, asked_at, asyncio.get_running_loop().time())
        if shard == 0 and limit == 0:
            self._looked = (head.now, at)
        return head, self._from_first(leases, at)

    def _from_first(self, leases: list[Lease], at: float) -> list[Lease]:
        """Count the durations of leases from the first of their grant."""
        if leases and self._first is None:
            self._first = at
        if not leases or at == self._first:
            return leases
        later = timedelta(seconds=at - (self._first or at))
        return [_put_off(lease, later) for lease in leases]


def _put_off(lease: Lease, later: timedelta) -> Lease:
    """Count the durations of a lease from an earlier moment; a task without a host starts at once."""
    if lease.task.url is None:
        return lease
    return replace(lease, start_in=lease.start_in + later, deadline_in=lease.deadline_in + later)


def _granted(leases: list[Lease], heads: Sequence[ClaimHead], drained: bool, now: int) -> Grant:
    due = min((head.next_due for head in heads if head.next_due >= 0), default=None)
    next_due = None if due is None else duration(due)
    return Grant(leases=leases, next_due=next_due, drained=drained, claimed_at=moment(now))
