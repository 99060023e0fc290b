"""A worker's claims: within its share of the partitions, and the pages that its run may still have."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from shoal.core.model import Grant, Run
from shoal.queue.contract import Fence, Queue
from shoal.worker.allowance import Allowance
from shoal.worker.share import Share
from shoal.worker.storeclock import StoreClock

CLOCK_LOOKS = 5  # the first answers of a new worker are late, and only the quickest of some tells the time


class Claimed(NamedTuple):
    """A grant, when it was made by the worker's clock, and whether its leases may be used."""

    grant: Grant = Grant()
    at: float = 0.0
    is_valid: bool = True


class Claims:
    """Claims tasks of one run for one worker."""

    def __init__(
        self,
        queue: Queue,
        run: Run,
        worker_id: str,
        lease: timedelta,
        *,
        steps: Sequence[str] | None,
        partitions: Sequence[str] | None,
        share: Share | None,
        max_pages: int | None,
    ) -> None:
        self.clock = StoreClock()
        self._queue, self._run_id, self._me, self._lease = queue, run.id, worker_id, lease
        self._steps, self._partitions, self._share = steps, partitions, share
        self._allowance = Allowance(queue, run.id, max_pages) if max_pages else None

    async def set_clock(self) -> None:
        """Learn the store's time from claims of nothing, which also let old tasks of the run expire."""
        for _ in range(CLOCK_LOOKS):
            asked_at = _now()
            grant = await self._claim_nothing()
            self.clock.local(grant.claimed_at, _now(), asked_at)

    async def allowed(self, limit: int) -> int:
        """Return how much of this may be claimed, as far as can be said without a turn."""
        return min(limit, await self._allowance.left()) if self._allowance else limit

    async def end_at_budget(self) -> Grant | None:
        """End the run if its pages are used, and return None; while others hold the last of them, a grant."""
        if self._allowance is None or await self._allowance.end():
            return None
        # It claims nothing, but takes back what a dead worker held.
        return await self._claim_nothing()

    async def claim(self, limit: int) -> Claimed:
        """Claim; of a run that may have only so many pages, no more than it may still have."""
        if not self._allowance:
            return await self._claim(limit, self._share.fence if self._share else None)
        async with self._allowance.turn() as turns_fence:
            limit = min(limit, await self._allowance.left())
            if limit <= 0:
                return Claimed()
            if not self._share:
                return await self._claim(limit, turns_fence)
            # A claim has one fence, and the plan's is needed. So a worker that slept through the end of its
            # turn may be given too much; it learns that before it starts anything, and hands all of it back.
            claimed = await self._claim(limit, self._share.fence)
            if not claimed.grant.leases:
                return claimed
            return claimed._replace(is_valid=await self._allowance.lasts(turns_fence))

    async def _claim_nothing(self) -> Grant:
        return await self._queue.claim(
            self._me, run_id=self._run_id, limit=1, lease=self._lease, partitions=[]
        )

    async def _claim(self, limit: int, fence: Fence | None) -> Claimed:
        asked_at = _now()
        grant = await self._queue.claim(
            self._me,
            run_id=self._run_id,
            limit=limit,
            lease=self._lease,
            steps=self._steps,
            partitions=list(self._share.partitions) if self._share else self._partitions,
            fence=fence,
        )
        return Claimed(grant, self.clock.local(grant.claimed_at, _now(), asked_at))


def _now() -> float:
    return asyncio.get_running_loop().time()
