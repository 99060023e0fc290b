"""A worker's claims: limited to its share of the partitions and to the pages that its run may still fetch.

A claim returns starts by the store's clock, and ahead of time if the store is slow to reply.
"""

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from shoal.core.errors import QueueError
from shoal.core.model import ZERO, Grant, Run
from shoal.core.pacing import MAX_LEAD
from shoal.core.tasks import exact_time
from shoal.queue.contract import Fence, Queue
from shoal.worker.ipc.protocol import WorkerConfig
from shoal.worker.page_limit import PageLimit
from shoal.worker.partitions import PartitionShare
from shoal.worker.prefetch import lag_of
from shoal.worker.telemetry.observer import Observer

SAMPLES = 64


class StoreClock:
    """Converts times of the store to the worker's clock.

    A reply arrives with an unknown delay. The fastest of many has hardly any, so the clock difference that it
    shows is used for all of them. Its delay is at most its round trip: that is the `uncertainty` of the last
    conversion, which is large as long as no reply was fast.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES)  # clock difference, round trip
        self.uncertainty = 0.0  # seconds

    def to_local(self, moment: datetime | None, received_at: float, sent_at: float | None = None) -> float:
        """Return a moment of the store by the worker's clock; the reply that carried it has just arrived."""
        round_trip = 0.0 if sent_at is None else received_at - sent_at
        if moment is None:
            self.uncertainty = round_trip
            return received_at
        stamp = moment.timestamp()
        self._samples.append((received_at - stamp, round_trip))
        difference, self.uncertainty = min(self._samples)
        # The store replies after the request was sent: an earlier moment only means its clock was set back.
        return stamp + difference if sent_at is None else max(stamp + difference, sent_at)


# Replies that brought leases: they wait for the disk, others do not. One that is slower than all
# of these costs its starts and no more: the worker does not use a start that has passed.
RECENT_REPLIES = 20
MARGIN = 1.25


class ClaimLead:
    """Decides the lead from how long recent replies took; zero for a store that replies within the lag."""

    def __init__(self, gap: timedelta) -> None:
        self._recent: deque[float] = deque(maxlen=RECENT_REPLIES)
        self.set_gap(gap)

    def set_gap(self, gap: timedelta) -> None:
        """Set the gap between two requests to a host."""
        self._gap, self._lag = gap, lag_of(gap)

    def record_reply(self, seconds: float) -> None:
        """Record how long after its claim a reply arrived."""
        self._recent.append(seconds)

    def next(self) -> timedelta:
        """Return the lead of the next claim."""
        if not self._gap or not self._recent:
            return ZERO
        return min(max(ZERO, timedelta(seconds=MARGIN * max(self._recent) - self._lag)), MAX_LEAD)


CLOCK_SAMPLES = (
    5  # the first replies to a new worker are slow, and only the fastest of several shows the time
)


class Claimed(NamedTuple):
    """A grant, when it was made by the worker's clock, and whether its leases may be used."""

    grant: Grant = Grant()
    at: float = 0.0
    is_valid: bool = True


class TaskClaims:
    """Claims tasks of one run for one worker."""

    def __init__(
        self,
        queue: Queue,
        run: Run,
        config: WorkerConfig,
        share: PartitionShare | None,
        *,
        steps: Sequence[str] | None = None,
        max_pages: int | None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.clock, self._lead = StoreClock(), ClaimLead(run.settings.host_delay)
        self._queue, self._run_id, self._share = queue, run.id, share
        self._worker_id, self._lease = config.worker_id, config.lease
        self._steps, self._partitions = steps, config.partitions
        self._observers = observers
        self.set_max_pages(max_pages)

    def set_max_pages(self, max_pages: int | None) -> None:
        """Set the page limit of the run; None is no limit."""
        self._page_limit = (
            PageLimit(self._queue, self._run_id, max_pages, self._worker_id) if max_pages else None
        )

    def set_gap(self, gap: timedelta) -> None:
        """Set the gap between two requests to a host."""
        self._lead.set_gap(gap)

    async def set_clock(self) -> None:
        """Learn the store's time from empty claims, which also let old tasks of the run expire."""
        for _ in range(CLOCK_SAMPLES):
            sent_at = exact_time()
            grant = await self._claim_nothing()
            self.clock.to_local(grant.claimed_at, exact_time(), sent_at)

    async def cap(self, limit: int) -> int:
        """Return how many tasks may be claimed, up to `limit`; an estimate, because it holds no lock."""
        if not self._page_limit or self._page_limit.block:
            return limit
        return min(limit, await self._page_limit.remaining())

    async def end_at_budget(self) -> Grant | None:
        """End the run and return None if its pages are used; a grant while others hold the last of them."""
        if self._page_limit is None or await self._page_limit.end_if_used():
            return None
        # It claims nothing, but reclaims the leases of a dead worker.
        return await self._claim_nothing()

    async def claim(self, limit: int) -> Claimed:
        """Claim up to `limit` tasks, and no more than the run's page limit allows."""
        if not self._page_limit:
            return await self._claim(limit, self._share.fence if self._share else None)
        block = self._page_limit.block
        if not block:
            async with self._page_limit.lock() as lock:
                remaining = await self._page_limit.remaining()
                if remaining <= 0:
                    return Claimed()
                block = await self._page_limit.reserve(remaining, limit, lock)
                if not block:
                    return await self._claim_of_limit(self._page_limit, min(limit, remaining), lock)
        taken = block.take(limit)  # stays taken if the reply is lost
        claimed = await self._claim_of_limit(self._page_limit, taken, block.fence)
        block.left = 0 if claimed.grant.outdated else block.left + taken - len(claimed.grant.leases)
        return claimed

    async def _claim_of_limit(self, page_limit: PageLimit, limit: int, fence: Fence) -> Claimed:
        if not self._share:
            return await self._claim(limit, fence)
        # A claim has one fence, and the plan's is needed. So a worker that was suspended until its lock or
        # block expired may get too many tasks; it finds out before it starts any, and releases all of them.
        claimed = await self._claim(limit, self._share.fence)
        if not claimed.grant.leases:
            return claimed
        return claimed._replace(is_valid=await page_limit.is_held(fence))

    async def _claim_nothing(self) -> Grant:
        return await self._request_tasks(limit=1, partitions=[])

    async def _claim(self, limit: int, fence: Fence | None) -> Claimed:
        sent_at, lead = exact_time(), self._lead.next()
        partitions = list(self._share.partitions) if self._share else self._partitions
        grant = await self._request_tasks(
            limit=limit, steps=self._steps, partitions=partitions, fence=fence, lead=lead
        )
        received_at = exact_time()
        claimed_at = self.clock.to_local(grant.claimed_at, received_at, sent_at)
        if grant.leases:
            self._lead.record_reply(received_at - claimed_at)
        return Claimed(grant, claimed_at)

    async def _request_tasks(self, **options: Any) -> Grant:
        try:
            grant = await self._queue.claim(
                self._worker_id, run_id=self._run_id, lease=self._lease, **options
            )
        except QueueError as error:
            for observer in self._observers:
                observer.on_queue_error("claim", error)
            raise
        for observer in self._observers:
            observer.on_claim()
        return grant
