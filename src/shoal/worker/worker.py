"""The worker's main loop: prefetch leases, handle many tasks at once, settle in batches; all overlapped."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from shoal.core.errors import QueueError
from shoal.core.model import Bury, Fate, Grant, Lease, Outcome, Release, Run
from shoal.fetch.cache.fetcher import CacheLookup
from shoal.queue.contract import Queue
from shoal.scrape.scraper import Scraper
from shoal.worker.background import Background
from shoal.worker.claims import POLL_INTERVAL, TaskClaims, next_poll_delay
from shoal.worker.counters import WorkerCounters
from shoal.worker.fetchers.private_refusals import PrivateRefusals
from shoal.worker.ipc.protocol import ExitReason, LeasesSettled, SupervisorChannel, WorkerProgress
from shoal.worker.partitions import PartitionShare
from shoal.worker.prefetch import PrefetchBuffer, ScheduledLease
from shoal.worker.processor import ProcessorTools, TaskProcessor
from shoal.worker.queue_retry import QueueRetry
from shoal.worker.settlements import Settlements
from shoal.worker.shared_budgets import TrapBudgetSync
from shoal.worker.skipped_links import SkippedLinkCounts
from shoal.worker.slots import AT_ONCE, MAX_PAGE_BYTES, ConcurrencySlots, MemoryLimit
from shoal.worker.waiting_callers import Verdict, WaitingCallers

CLAIM_JITTER = 0.05  # seconds
PROGRESS_INTERVAL = 0.5  # seconds
HELD_INTERVAL = 0.05  # seconds until a worker that is held looks again
MAX_CALLS_PER_SLOT = 4  # calls that a worker holds for each task that it may handle at once


class Stop(Enum):
    """How a worker stops."""

    FINISH = auto()  # finish started tasks, release the others
    RELEASE = auto()  # release everything at once


class Worker:
    """Works on one run until the run is drained or the worker is stopped."""

    def __init__(
        self,
        queue: Queue,
        run: Run,
        scraper: Scraper,
        tools: ProcessorTools,
        *,
        worker_id: str,
        lease: timedelta,
        at_once: int = AT_ONCE,
        slow_requests: int = 0,
        batch: int = 50,
        memory: int = MAX_PAGE_BYTES,
        steps: Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        share: PartitionShare | None = None,
        channel: SupervisorChannel | None = None,
        standby: bool = False,
    ) -> None:
        self.tally = WorkerCounters()
        self._queue, self._run, self._scraper, self._settings = queue, run, scraper, scraper.settings
        self._prefetch = PrefetchBuffer(run.settings.host_delay)
        # A worker that pauses between tasks handles one at a time.
        self._at_once = 1 if self._settings.pause else at_once
        self._slots = ConcurrencySlots(
            self._at_once, 0 if self._settings.pause else slow_requests, self._on_slot_free
        )
        self._skipped_links = SkippedLinkCounts(
            queue, scraper.first.link_filter, run.id, worker_id, self.tally
        )
        self._refusals = None if standby else PrivateRefusals(queue, run.id)  # callers wait for each outcome
        self._processor = TaskProcessor(
            scraper,
            run,
            replace(tools, on_private=self._refusals.add) if self._refusals else tools,
            self.tally,
            try_start=self._try_start,
            memory=MemoryLimit(memory),
            slots=self._slots,
            note_cuts=self._skipped_links.note_cuts_early,
        )
        self._batch, self._share, self._lease = batch, share, lease
        self._claims = TaskClaims(
            queue,
            run,
            worker_id,
            lease,
            steps=steps,
            partitions=partitions,
            share=share,
            max_pages=self._settings.max_pages,
        )
        self._claim_retry = QueueRetry("claim tasks", lease)
        self._trap_budgets = TrapBudgetSync(queue, scraper.first.link_filter, run.id)
        self._channel = channel or SupervisorChannel(None)
        self._settlements = Settlements(queue, self._on_settled, give_up_after=lease)
        self._background = Background()
        self.is_held: Callable[[], bool] | None = None  # while it returns true, nothing is claimed
        self._standby, self._callers = standby, WaitingCallers()
        self._numbers: dict[tuple[str, int], int] = {}  # of every lease that it holds
        self._started: dict[int, Lease] = {}  # not finished yet, by number
        self._running: set[asyncio.Task[None]] = set()
        self._lookups: dict[int, asyncio.Task[CacheLookup | None]] = {}  # before the start, by number
        self._wake = asyncio.Event()
        self._host_freed = asyncio.Event()  # a task did not use its turn on its host
        self._stop: Stop | None = None
        self._stopped = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._rest_until = 0.0
        self._idle_polls = 0  # polls in a row that found nothing while no lease was held

    def stop(self, how: Stop) -> None:
        """Stop the worker; a second call with RELEASE cancels the tasks that the first one lets finish."""
        if self._stop is Stop.RELEASE:
            return
        self._stop = how
        self._release_prefetched()
        if how is Stop.RELEASE:
            for task in self._running:
                task.cancel()
        self._settlements.stop()
        self._stopped.set()
        self._wake.set()

    @property
    def in_hand(self) -> int:
        """The number of leases that it holds."""
        return len(self._numbers)

    def started_lease(self, number: int) -> Lease | None:
        """Return the lease with this number if its task is in progress; safe in any thread."""
        return self._started.get(number)

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stop is not None

    def accept(self, lease: Lease, claimed_at: datetime | None) -> asyncio.Future[Verdict] | None:
        """Handle a lease that a caller sends, and return its future outcome; None if it is not accepted."""
        is_known = (lease.task_id, lease.token) in self._numbers
        if is_known or self.is_stopping or self.in_hand >= MAX_CALLS_PER_SLOT * self._at_once:
            return None
        verdict = self._callers.wait_for(lease)
        self._accept([lease], self._claims.clock.to_local(claimed_at, asyncio.get_running_loop().time()))
        return verdict

    async def change_settings(self, run: Run, changes: Mapping[str, Any]) -> None:
        """Work with changed settings of the run from now on; raises InvalidSetting."""
        self._scraper.change(**changes)
        is_clock_needed = run.settings.host_delay and not self._run.settings.host_delay
        self._run, self._settings = run, self._scraper.settings
        self._processor.read_settings(run)
        self._claims.set_max_pages(self._settings.max_pages)
        self._prefetch.set_gap(run.settings.host_delay)
        self._release_prefetched()  # their starts were planned with the old limits
        self._settlements.flush()
        if is_clock_needed:
            await self.set_clock()
        self._wake.set()

    async def set_clock(self) -> None:
        """Learn the store's time; raises the queue's error."""
        await self._claims.set_clock()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a background task; if it fails, the worker ends with its error."""
        return self._background.start(work, name)

    async def run(self) -> ExitReason:
        """Work until the run is drained, its page budget is used, or `stop`; return which.

        Raises the error of anything that fails, here or in the background: nothing fails unnoticed.
        """
        try:
            return await self._background.run(self._work())
        finally:
            self._channel.send(WorkerProgress(self.tally, len(self._numbers)))

    async def _work(self) -> ExitReason:
        settling = self.start(self._settlements.run(), "settling")
        self.start(self._report_progress(), "reporting progress")
        self.start(self._trap_budgets.run(), "sharing trap budgets")
        self.start(self._skipped_links.run(), "counting skipped links")
        if self._share:
            self.start(self._follow_plan(self._share), "following the partition plan")
        reason = await (self._stand_by() if self._standby else self._claim_until_end())
        while self._running:
            await asyncio.wait(self._running)
        # A task that is cancelled before it first runs never releases its lease.
        for lease in self._started.values():
            self._settlements.put(Release(lease))
        self._settlements.close()
        await settling
        with suppress(QueueError):
            await self._skipped_links.write()
        return reason

    async def _stand_by(self) -> ExitReason:
        while self._stop is None:
            self._wake.clear()
            await self._wait_for_wake(POLL_INTERVAL)
        return ExitReason.STOPPED

    async def _claim_until_end(self) -> ExitReason:
        if self._run.settings.host_delay:
            with suppress(QueueError):  # the first claim reports the error
                await self.set_clock()
        while self._stop is None:
            await self._settlements.wait_for_capacity()
            # Before the claim, not after it: an event during the claim may be what the next one waits for.
            self._wake.clear()
            self._host_freed.clear()
            if self._slots.is_stuck:
                self._release_prefetched()  # other workers may have free slots
            if self.is_held and self.is_held():
                await self._wait_for_wake(HELD_INTERVAL)
                continue
            await self._settle_refusals()
            limit, full = self._claim_limits()
            if limit < max(1, full // 2) and self._numbers:
                await self._wait_for_wake(POLL_INTERVAL)
                continue
            try:
                grant = await self._claim(limit)
            except QueueError as error:
                await self._wait_for_queue(self._claim_retry.on_failure(error))
                continue
            self._claim_retry.on_success()
            if grant is None:
                return ExitReason.BUDGET
            if grant.drained:
                return ExitReason.DRAINED
            if grant.outdated:
                if self._share:
                    await self._apply_plan(self._share)
                continue
            if not grant.leases:
                await self._yield_to_other_workers()
                self._idle_polls = 0 if self._numbers else self._idle_polls + 1
                await self._wait_for_wake(next_poll_delay(grant, self._idle_polls))
        return ExitReason.STOPPED

    async def _settle_refusals(self) -> None:
        """Settle the tasks at private hosts; raises InvalidInput if the run has no others."""
        if self._refusals:
            for outcome in await self._refusals.take_due(is_idle=not self._started and not self._prefetch):
                self._settlements.put(outcome)

    async def _claim(self, limit: int) -> Grant | None:
        """Claim up to `limit` tasks and accept them; None if the run may fetch no more pages."""
        limit = await self._claims.cap(limit)
        if limit <= 0:
            return Grant() if self._numbers else await self._claims.end_at_budget()
        claimed = await self._claims.claim(limit)
        if claimed.grant.leases:
            self._idle_polls = 0
            self._accept(claimed.grant.leases, claimed.at, is_valid=claimed.is_valid)
        return claimed.grant

    async def _yield_to_other_workers(self) -> None:
        # Where many workers wait for the same hosts, all of them claim when one is free, and one gets it.
        # A worker that has prefetched leases can wait a little.
        if self._prefetch:
            with suppress(TimeoutError):
                async with asyncio.timeout(random.uniform(0, CLAIM_JITTER)):
                    await self._host_freed.wait()

    def _claim_limits(self) -> tuple[int, int]:
        """Return how many more leases are worth holding, and how many if it held none."""
        ahead = 0 if self._settings.pause else self._slots.prefetch_limit(self._batch)
        most = self._at_once + ahead
        return min(self._batch, most - self._slots.taken - len(self._prefetch)), min(self._batch, most)

    def _accept(self, leases: Sequence[Lease], claimed_at: float, *, is_valid: bool = True) -> None:
        numbers = self._channel.report_claimed(leases)
        self._numbers.update(zip(((lease.task_id, lease.token) for lease in leases), numbers, strict=True))
        # While the reply was on its way, the plan may have changed or its leases may have expired.
        age = asyncio.get_running_loop().time() - claimed_at + self._claims.clock.uncertainty
        is_usable = is_valid and age <= self._lease.total_seconds()
        wanted = [] if not is_usable else [lease for lease in leases if self._may_start(lease)]
        if len(wanted) < len(leases):
            for lease in leases:
                if lease not in wanted:
                    self._settlements.put(Release(lease, asked=False))
            self._settlements.flush()
            leases = wanted
        self._prefetch.put(leases, claimed_at)
        self._start_lookups(leases)
        self._start_due()

    def _start_lookups(self, leases: Sequence[Lease]) -> None:
        """Look for cached pages: they need no request, so their tasks need not wait for their hosts."""
        for lease in filter(self._processor.may_be_cached, leases):
            number = self._numbers[lease.task_id, lease.token]
            self._lookups[number] = self._background.start(self._look_up(lease, number))

    async def _look_up(self, lease: Lease, number: int) -> CacheLookup | None:
        lookup = await self._processor.look_up(lease, number)
        if lookup and lookup.page:
            self._prefetch.start_now(lease)
            self._start_due()
        return lookup

    def _may_start(self, lease: Lease) -> bool:
        is_mine = self._share is None or lease.task.partition in self._share.partitions
        return is_mine and self._stop is None

    async def _follow_plan(self, share: PartitionShare) -> None:
        while True:
            await self._apply_plan(share)
            await asyncio.sleep(share.poll_interval)

    async def _apply_plan(self, share: PartitionShare) -> None:
        """Read which partitions to claim from now on; release prefetched leases if one was taken away."""
        before = share.partitions
        with suppress(QueueError):
            if await share.refresh():
                self._release_prefetched()
                self._settlements.flush()
        self._start_due()
        if share.partitions != before:
            self._wake.set()

    def _release_prefetched(self) -> None:
        for lease in self._prefetch.clear():
            number = self._numbers[lease.task_id, lease.token]
            if number in self._lookups:
                self._lookups.pop(number).cancel()
                self._processor.forget(number)
            self._settlements.put(Release(lease, asked=False))

    async def _wait_for_wake(self, seconds: float) -> None:
        """Wait until something has happened since the last claim, for at most this long."""
        if self._stop is None:
            # Everything that wakes the worker sets the event; a timer is cheaper than a task.
            timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)
            await self._wake.wait()
            timer.cancel()

    async def _wait_for_queue(self, seconds: float) -> None:
        """Wait before a failed claim is retried; only a stop ends the wait early."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()

    def _start_due(self) -> None:
        """Start the leases that are due, as far as slots are free, and set a timer for the next one."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        # With an old plan, this worker may be considered dead, and others may have its partitions.
        may_start = not self._share or self._share.is_fresh(now)
        while (
            may_start
            and self._slots.is_free
            and now >= self._rest_until
            and (start := self._prefetch.pop(now))
        ):
            lease = start.lease
            number = self._numbers[lease.task_id, lease.token]
            self._slots.take(number)
            self._started[number] = lease
            task = self._background.start(self._handle(start, number))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        if self._timer:
            self._timer.cancel()
            self._timer = None
        due = self._prefetch.next_due()
        if due is not None and may_start and self._slots.is_free:
            self._timer = loop.call_at(max(due, self._rest_until), self._start_due)

    async def _handle(self, start: ScheduledLease, number: int) -> None:
        try:
            lookup = self._lookups.pop(number, None)
            outcome = await self._processor.process(start, number, await lookup if lookup else None)
        except asyncio.CancelledError:
            self._processor.forget(number)
            outcome = self._judge_cancelled(start.lease)
        self._finish(number, outcome)

    def _judge_cancelled(self, lease: Lease) -> Outcome:
        """Return the outcome of a started task that a stop has cancelled."""
        if self._processor.at_most_once(lease.task):
            return Bury(lease, "Stopped: the worker was shut down, and delivery is at_most_once")
        return Release(lease)

    def _on_slot_free(self) -> None:
        self._start_due()
        self._wake.set()

    def _try_start(self, start: ScheduledLease) -> bool:
        return self._prefetch.try_start(start, asyncio.get_running_loop().time())

    def _finish(self, number: int, outcome: Outcome) -> None:
        del self._started[number]
        self._slots.leave(number)
        self._schedule_rest()
        # With nothing left to start, the next claim may be waiting for what this outcome frees at its host.
        is_waited_for = self._standby or not self._prefetch or self._frees_host(outcome)
        self._settlements.urgent = is_waited_for
        if not (self._refusals and self._refusals.hold(outcome)):
            self._settlements.put(self._callers.withhold_links(outcome))
        self._start_due()
        if len(self._prefetch) <= self._batch // 2:
            self._wake.set()

    def _frees_host(self, outcome: Outcome) -> bool:
        return not outcome.asked and bool(self._run.settings.host_delay)

    def _schedule_rest(self) -> None:
        if self._settings.pause:
            shortest, longest = (bound.total_seconds() for bound in self._settings.pause)
            self._rest_until = asyncio.get_running_loop().time() + random.uniform(shortest, longest)

    def _on_settled(self, outcomes: Sequence[Outcome], fates: Sequence[Fate]) -> None:
        numbers, before = [], self.tally.pages
        for outcome, fate in zip(outcomes, fates, strict=True):
            number = self._numbers.pop((outcome.lease.task_id, outcome.lease.token), None)
            if number is not None:
                numbers.append(number)
            self.tally.count(outcome, fate)
            self._callers.resolve(outcome, fate)
            if self._frees_host(outcome):
                self._host_freed.set()
        self._channel.send(LeasesSettled(numbers, self.tally.pages - before))
        self._wake.set()

    async def _report_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_INTERVAL)
            self._channel.send(WorkerProgress(self.tally, len(self._numbers)))
