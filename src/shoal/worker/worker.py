"""The worker's main loop: prefetch leases, handle many tasks at once, settle in batches; all overlapped.

What to do when is decided in scheduler.py; this does it.
"""

import asyncio
import logging
import math
import resource
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from shoal.core.errors import QueueError, RunGone, UnknownRun
from shoal.core.model import Bury, Fate, Grant, Lease, Outcome, Release, Run
from shoal.core.retry_policy import AT_MOST_ONCE
from shoal.core.tasks import TIMER_ERROR, call_at, exact_time, exchange_last, repeat, wait_for_event
from shoal.queue.contract import Queue
from shoal.scrape.scraper import Scraper
from shoal.worker.attempts import CacheLookups, ProcessorTools, TaskWaits
from shoal.worker.background import Background
from shoal.worker.claims import TaskClaims
from shoal.worker.counters import WorkerCounters
from shoal.worker.failures.brake import FailureBrake
from shoal.worker.ipc.protocol import (
    ExitReason,
    LeasesSettled,
    SupervisorChannel,
    WorkerConfig,
    WorkerProgress,
)
from shoal.worker.left_out import LeftOutCounts, TrapCountSync
from shoal.worker.partitions import PartitionShare
from shoal.worker.prefetch import ScheduledLease
from shoal.worker.processor import TaskProcessor
from shoal.worker.queue_retry import QueueRetry
from shoal.worker.scheduler import NextClaim, NumberedLease, Polling, Scheduler, Stop
from shoal.worker.settlements import Settlements, Verdict, WaitingCallers

PROGRESS_INTERVAL = timedelta(seconds=0.5)
LAST_WRITE_TIMEOUT = timedelta(seconds=30)
HELD_INTERVAL_SECONDS = 0.05  # until a worker that is held looks again
STOPPED = "the worker was stopped"  # why it released a task
MAX_FULL_SECONDS = 0.5  # without room for more leases; then another worker is woken


log = logging.getLogger(__name__)


def default_concurrency(scraper: Scraper) -> int | None:
    """Return the tabs of the browser if it fetches every page, else None, which is the usual number."""
    # More leases would only wait for a tab, and count against `per_host` while other workers have free tabs.
    return scraper.settings.browser.tabs if scraper.fetchers == {"browser"} else None


def max_in_flight() -> float:
    """Return how many requests may be in flight: half the files that this process may open at a time."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return math.inf if files == resource.RLIM_INFINITY else max(1, files // 2)


class Worker:
    """Works on one run until the run is drained or the worker is stopped."""

    def __init__(
        self,
        queue: Queue,
        run: Run,
        scraper: Scraper,
        tools: ProcessorTools,
        config: WorkerConfig,
        channel: SupervisorChannel | None = None,
    ) -> None:
        self.tally = WorkerCounters()
        self._queue, self._run, self._scraper, self._settings = queue, run, scraper, scraper.settings
        self._share = (
            PartitionShare(queue, run.id, config.worker_id, config.sharing) if config.sharing else None
        )
        self._scheduler = Scheduler(
            lease=config.lease,
            gap=run.settings.host_delay,
            # A caller chooses the worker by its load, so one for calls may hold more than it has tabs.
            concurrency=config.concurrency or (None if config.listening else default_concurrency(scraper)),
            max_in_flight=max_in_flight(),
            batch=config.batch,
            pause=self._settings.pause,
            share=self._share,
            polling=Polling(
                run.settings.host_delay,
                may_rest=config.may_rest,
                # With proxies that have a rate each, every worker has its own, and must use them.
                is_needed=bool(self._settings.proxies and self._settings.proxies.per_exit),
            ),
            suspects=config.suspects,
            # Such steps have something to do before they send a request: it would come too late.
            starts_early=all(step.fetch is None for step in scraper.steps.values()),
        )
        self._warn_of_few_files()
        self._left_out = LeftOutCounts(queue, scraper.first.link_filter, run.id, config.worker_id, self.tally)
        # One that handles calls claims nothing, and its callers wait for each outcome.
        self._standby = config.listening is not None
        self._processor = TaskProcessor(
            scraper,
            run,
            tools,
            self.tally,
            waits=TaskWaits(self._scheduler, self._on_slot_free, max_bytes=config.memory),
            note_cuts=self._left_out.note_cuts_early,
            is_stopping=lambda: self._scheduler.is_releasing or self._background.is_closing,
        )
        self._markers, self._background = tools.markers, Background()
        self._claims = TaskClaims(
            queue,
            run,
            config,
            self._share,
            # Those that its code has: beside workers with newer or older code, the others are for them.
            steps=scraper.steps_of_tasks(config.steps),
            max_pages=self._settings.max_pages,
            observers=tools.observers,
        )
        self._brake = FailureBrake(queue, run.id, self._settings.stop_when, self._release_prefetched)
        self._trap_counts = TrapCountSync(queue, scraper.first.link_filter, run.id)
        self._claim_retry = QueueRetry("claim tasks", config.lease)
        self._channel = channel or SupervisorChannel(None)
        self._settlements = Settlements(
            queue,
            self._on_settled,
            give_up_after=config.lease,
            observers=tools.observers,
            before=tools.revisits.flush if tools.revisits else None,
        )
        self._lookups = CacheLookups(
            self._processor.look_up,
            self._background,
            on_hit=self._start_now,
            forget=self._processor.forget,
        )
        self.is_held: Callable[[], bool] | None = None  # while it returns true, nothing is claimed
        self._callers = WaitingCallers()
        self._running: set[asyncio.Task[None]] = set()
        self._wake, self._stopped = asyncio.Event(), asyncio.Event()
        self._host_freed = asyncio.Event()  # a task did not use its turn on its host
        self._start_timer: asyncio.TimerHandle | None = None
        self._full_since: float | None = None  # when it last had no room for more leases

    def _warn_of_few_files(self) -> None:
        slots = self._scheduler.slots
        if (allowed := slots.concurrency + slots.max_slow) < slots.wanted:
            log.warning(
                "A worker may open few files, so at most %d requests are in flight instead of %d. "
                "Raise its limit, for example with: ulimit -n 65536",
                *(allowed, slots.wanted),
            )

    def stop(self, how: Stop) -> None:
        """Stop the worker; a second call with RELEASE cancels the tasks that the first one lets finish."""
        if self._scheduler.is_releasing:
            return
        self._release(self._scheduler.stop(how))
        if how is Stop.RELEASE:
            for task in self._running:
                task.cancel()
        self._settlements.stop()
        self._stopped.set()
        self._wake.set()

    def wake_up(self) -> None:
        """Look for work now: another worker has found more than it takes, or that the run has ended."""
        self._scheduler.polling.poll_soon()
        self._wake.set()

    @property
    def in_hand(self) -> int:
        """The number of leases that it holds."""
        return self._scheduler.held

    def started_lease(self, number: int) -> Lease | None:
        """Return the lease with this number if its task is in progress; safe in any thread."""
        return self._scheduler.started_lease(number)

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._scheduler.is_stopping

    def accept(self, lease: Lease, claimed_at: datetime | None) -> asyncio.Future[Verdict] | None:
        """Handle a lease that a caller sends, and return its future outcome; None if it is not accepted."""
        if not self._scheduler.may_accept_call(lease):
            return None
        verdict = self._callers.wait_for(lease)
        self._accept([lease], self._claims.clock.to_local(claimed_at, exact_time()))
        return verdict

    async def change_settings(self, run: Run, changes: Mapping[str, Any]) -> None:
        """Work with changed settings of the run from now on; raises InvalidSetting."""
        self._scraper.change(**changes)
        is_clock_needed = run.settings.host_delay and not self._run.settings.host_delay
        self._run, self._settings = run, self._scraper.settings
        self._processor.read_settings(run)
        self._claims.set_max_pages(self._settings.max_pages)
        self._brake.limit = self._settings.stop_when
        self._claims.set_gap(run.settings.host_delay)
        gap, pause = run.settings.host_delay, self._settings.pause
        self._release(self._scheduler.change_settings(gap, pause, exact_time()))
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
        except UnknownRun as error:  # it was there when the worker started
            raise RunGone(error.run_id) from error
        finally:
            if not self._left_out.is_complete:  # after an error, too
                await exchange_last(self._left_out.write_last, LAST_WRITE_TIMEOUT)
            self._channel.send(WorkerProgress(self.tally))

    async def _work(self) -> ExitReason:
        settling = self.start(self._settlements.run(), "settling")
        self.start(self._report_progress(), "reporting progress")
        self.start(self._trap_counts.run(), "sharing trap counts")
        self.start(self._left_out.run(), "counting skipped links")
        if not self._standby:
            self.start(self._brake.run(), "watching for failures")
        if self._share:
            share = self._share
            following = repeat(lambda: self._apply_plan(share), share.poll_interval, jitter=0, at_once=True)
            self.start(following, "following the partition plan")
        reason = await (self._stand_by() if self._standby else self._claim_until_end())
        while self._running:
            await asyncio.wait(self._running)
        # A task that is cancelled before it first runs never releases its lease.
        for lease in self._scheduler.started:
            self._settlements.put(Release(lease, reason=STOPPED))
        self._settlements.close()
        await settling
        await exchange_last(self._left_out.write_last, LAST_WRITE_TIMEOUT)
        return reason

    async def _stand_by(self) -> ExitReason:
        await self._stopped.wait()
        return ExitReason.STOPPED

    async def _claim_until_end(self) -> ExitReason:
        if self._run.settings.host_delay:
            with suppress(QueueError):  # the first claim reports the error
                await self.set_clock()
        while not self.is_stopping:
            await self._settlements.wait_for_capacity()
            # Before the claim, not after it: an event during the claim may be what the next one waits for.
            self._wake.clear()
            self._host_freed.clear()
            self._release(self._scheduler.take_unreachable(exact_time()))
            if self.is_held and self.is_held():
                await self._wait_for_wake(HELD_INTERVAL_SECONDS)
                continue
            if (wait := self._processor.no_proxy_until - exact_time()) > 0:
                await self._wait_for_wake(wait)
                continue
            size = self._scheduler.next_claim_size(exact_time())
            if not size:
                await self._wait_while_full()
                continue
            self._full_since = None
            sent_at = exact_time()
            try:
                grant = await self._claim(size)
            except QueueError as error:
                # Only a stop ends this wait early: a wake-up does not bring the queue back.
                await wait_for_event(self._stopped, self._claim_retry.on_failure(error))
                continue
            self._claim_retry.on_success()
            following = self._scheduler.after_claim(grant, sent_at, exact_time())
            if following.end:
                return following.end
            await self._prepare_claim(following)
        return ExitReason.STOPPED

    async def _prepare_claim(self, following: NextClaim) -> None:
        if following.refresh_plan and self._share:
            await self._apply_plan(self._share)
        if following.yield_for:
            await wait_for_event(self._host_freed, following.yield_for)
        if following.wait:
            await self._wait_for_wake(following.wait)

    async def _claim(self, limit: int) -> Grant | None:
        """Claim up to `limit` tasks and accept them; None if the run may fetch no more pages."""
        limit = await self._claims.cap(limit)
        if limit <= 0:
            return Grant() if self.in_hand else await self._claims.end_at_budget()
        settings = self._settings
        claimed = await self._claims.claim(limit)
        leases = claimed.grant.leases
        if leases:
            self._scheduler.polling.poll_soon()
            is_valid = claimed.is_valid and settings is self._settings  # else for a rate or pause of before
            self._accept(leases, claimed.at, is_valid=is_valid, is_full=len(leases) >= limit)
        return claimed.grant

    def _accept(
        self, leases: Sequence[Lease], claimed_at: float, *, is_valid: bool = True, is_full: bool = False
    ) -> None:
        unwanted = self._scheduler.accept(
            leases,
            self._channel.report_claimed(leases, is_full=is_full),
            claimed_at,
            exact_time(),
            is_valid=is_valid,
            uncertainty=self._claims.clock.uncertainty,
        )
        if unwanted:
            for lease in unwanted:
                self._settlements.put(Release(lease, asked=False))
            self._settlements.flush()
            leases = [lease for lease in leases if lease not in unwanted]
        for lease in leases:
            if self._scraper.first.link_filter.find_trap(lease.task):
                # It needs no request, so it need not wait for its host.
                self._scheduler.start_now(lease)
            if self._processor.may_be_cached(lease):
                self._lookups.start(lease, self._scheduler.number_of(lease))
        self._start_due()

    def _start_now(self, lease: Lease) -> None:
        self._scheduler.start_now(lease)
        self._start_due()

    async def _apply_plan(self, share: PartitionShare) -> None:
        """Read which partitions to claim from now on; release prefetched leases if one was taken away."""
        before = share.partitions
        with suppress(QueueError):
            if await share.refresh():
                self._release_prefetched()
        self._start_due()
        if share.partitions != before:
            self._wake.set()

    def _release_prefetched(self) -> None:
        self._release(self._scheduler.take_prefetched())
        self._settlements.flush()

    def _release(self, leases: Sequence[NumberedLease]) -> None:
        """Release leases that were not started."""
        for number, lease in leases:
            self._lookups.cancel(number)
            self._settlements.put(Release(lease, asked=False))

    async def _wait_while_full(self) -> None:
        """Wait until a pause ends, or there is room for leases; if that takes long, have another one woken.

        The others of the pool may rest, because this one has come for every host so far.
        """
        now = exact_time()
        if rest := self._scheduler.rest_left(now):
            await self._wait_for_wake(rest)
            return
        if self._full_since is None:
            self._full_since = now
        elif now - self._full_since >= MAX_FULL_SECONDS:
            self._full_since = now
            self._channel.report_full()
        await self._wait_for_wake(MAX_FULL_SECONDS)

    async def _wait_for_wake(self, seconds: float) -> None:
        """Wait until something has happened since the last claim, for at most this long."""
        if not self.is_stopping:
            # Everything that wakes the worker sets the event; a timer is cheaper than a task.
            timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)
            await self._wake.wait()
            timer.cancel()

    def _start_due(self) -> None:
        """Start the leases that are due, as far as slots are free, and set a timer for the next one."""
        now = exact_time() + TIMER_ERROR
        for number, start in self._scheduler.start_due(now):
            self._markers.mark_progress(number, 1)
            task = self._background.start(self._handle(start, number))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        if self._start_timer:
            self._start_timer.cancel()
        due = self._scheduler.next_start_at(now)
        self._start_timer = None if due is None else call_at(due, self._start_due)

    async def _handle(self, start: ScheduledLease, number: int) -> None:
        try:
            outcome = await self._processor.process(start, number, await self._lookups.take(number))
        except asyncio.CancelledError:
            self._processor.forget(number)
            outcome = self._judge_cancelled(start.lease)
        self._finish(number, outcome)

    def _judge_cancelled(self, lease: Lease) -> Outcome:
        """Return the outcome of a started task that a stop has cancelled."""
        if self._processor.at_most_once(lease.task):
            return Bury(lease, f"Stopped: the worker was shut down, and {AT_MOST_ONCE}")
        return Release(lease, reason=STOPPED)

    def _on_slot_free(self) -> None:
        self._start_due()
        self._wake.set()

    def _finish(self, number: int, outcome: Outcome) -> None:
        self._scheduler.finish(number, outcome, exact_time())
        self._settlements.urgent = self._standby or self._scheduler.should_settle_now(outcome)
        self._settlements.put(self._callers.withhold_links(outcome))
        self._start_due()
        if self._scheduler.is_low:
            self._wake.set()

    def _on_settled(self, outcomes: Sequence[Outcome], fates: Sequence[Fate]) -> None:
        numbers, before = [], self.tally.pages
        for outcome, fate in zip(outcomes, fates, strict=True):
            number = self._scheduler.forget(outcome.lease)
            if number is not None:
                # Not before: what a task has left may end the process a moment after the task.
                self._markers.mark_progress(number, 0)
                numbers.append(number)
            self.tally.count(outcome, fate)
            self._processor.count_settled(outcome, fate)
            self._brake.count(outcome, fate)
            self._callers.resolve(outcome, fate)
            if self._scheduler.frees_host(outcome):
                self._host_freed.set()
        self._channel.send(LeasesSettled(numbers, self.tally.pages - before))
        if self._scheduler.may_hold_suspects:
            self._start_due()
        self._wake.set()

    async def _report_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_INTERVAL.total_seconds())
            self._channel.send(WorkerProgress(self.tally))
