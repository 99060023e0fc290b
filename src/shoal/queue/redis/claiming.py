"""Claims: one call on a plain server; on a cluster the shards are asked in the order of what they have."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shoal.core.model import Grant, Lease
from shoal.core.pacing import BURST_HORIZON
from shoal.queue.contract import Fence
from shoal.queue.redis.wire import ClaimHead, duration, micros, moment, pack, read_claim

MOST = 5_000  # leases of one call
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


class Claiming:
    """One claim; `ask` calls the script on a shard, `forward` hands over what shards have sent."""

    def __init__(self, wish: Wish, shards: int, ask: Ask, forward: Forward) -> None:
        self._wish, self._shards, self._ask, self._forward = wish, shards, ask, forward
        self._limit = min(wish.limit, MOST)

    async def grant(self) -> Grant:
        """Return the leases, and what may be expected."""
        return await (self._plain() if self._shards == 1 else self._spread())

    async def _plain(self) -> Grant:
        while True:
            head, leases = await self._claim(0, self._limit, 0)
            if head.outdated:
                return Grant(outdated=True)
            if leases or not head.more:
                return _granted(leases, [head], head.drained)

    async def _spread(self) -> Grant:
        heads = await self._look()
        full = [shard for shard, head in enumerate(heads) if head.outbox]
        ripe = [shard for shard, head in enumerate(heads) if head.ripe]
        if full or ripe:
            await self._forward(self._wish.run_id, full, ripe)
            heads = await self._look()
        leases = await self._gather(heads)
        drained = not leases and await self._drained(heads)
        return _granted(leases, heads, drained)

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
        answer = await self._ask(shard, limit > 0, self._wish.run_id, *self._wish.arguments(limit, lowest))
        return read_claim(answer, self._wish.run_id)


def _granted(leases: list[Lease], heads: Sequence[ClaimHead], drained: bool) -> Grant:
    due = min((head.next_due for head in heads if head.next_due >= 0), default=None)
    claimed_at = moment(heads[0].now) if len(heads) == 1 else None
    next_due = None if due is None else duration(due)
    return Grant(leases=leases, next_due=next_due, drained=drained, claimed_at=claimed_at)
