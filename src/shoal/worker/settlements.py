"""Outcomes on their way to the queue: collected into batches, settled, retried, and passed to callers."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from shoal.core.errors import InvalidInput, QueueError, QueueUnavailable, SettleFailed
from shoal.core.failures import error_text
from shoal.core.model import MINUTE, Bury, Done, Fate, Lease, Outcome, Task
from shoal.core.tasks import exact_time, wait_for_event
from shoal.queue.contract import Queue, WorkQueue
from shoal.worker.prefetch import LeaseKey, key_of
from shoal.worker.queue_retry import FINAL, TRANSIENT, QueueRetry
from shoal.worker.telemetry.observer import Observer

MAX_BATCH = 500
MAX_FAILURES = 3  # of single outcomes, while none is settled: then the store fails, not the outcomes

OnSettled = Callable[[Sequence[Outcome], Sequence[Fate]], None]


class _SettleFailure(msgspec.Struct):
    """An outcome that the queue did not accept."""

    outcome: Outcome
    error: Exception
    since: float | None = None  # when it first failed by itself, and not because the store is away or full
    is_last: bool = False  # the outcome is the Bury that replaces the one that could not be settled


class Settler:
    """Settles outcomes; one that fails is retried later, and does not block the others.

    A batch that fails is split. An outcome that fails by itself for `give_up_after` is buried instead; if the
    queue does not accept that either, SettleFailed is raised. If the store is unreachable, full or read-only,
    the settler retries without end.
    """

    def __init__(
        self,
        queue: WorkQueue,
        on_settled: OnSettled,
        *,
        give_up_after: timedelta,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._queue, self._on_settled, self._observers = queue, on_settled, observers
        self._give_up_after = give_up_after.total_seconds()
        self._retry = QueueRetry("settle its tasks", give_up_after)
        self._failures: dict[LeaseKey, _SettleFailure] = {}
        self._max_batch = MAX_BATCH
        self.retry_at: float | None = None  # by the loop's clock, if there is something to retry
        self.is_down = False  # the last attempt settled nothing

    def __len__(self) -> int:
        return len(self._failures)

    async def settle(self, outcomes: Sequence[Outcome]) -> None:
        """Settle these outcomes, and those that are due for a retry."""
        batch = [*self._take_due(), *outcomes]
        if not batch:
            return
        error, has_settled = await self._settle(batch)
        if not self._failures:
            self._retry.on_success()
        self.is_down = error is not None and not has_settled
        if not self._failures:
            self.retry_at = None
        elif error:
            self.retry_at = exact_time() + self._retry.next_wait(error)

    def _take_due(self) -> list[Outcome]:
        """Return what to retry now: first those that are given up, last those that failed by themselves."""
        if self.retry_at is None or exact_time() < self.retry_at:
            return []
        given_up_before = exact_time() - self._give_up_after
        for failure in self._failures.values():
            if failure.since is not None and failure.since <= given_up_before and not failure.is_last:
                text = f"SettleFailed: the queue did not accept its outcome: {error_text(failure.error)}"
                failure.outcome, failure.is_last = Bury(failure.outcome.lease, text), True
        order = sorted(self._failures.values(), key=lambda one: (not one.is_last, one.since is not None))
        return [failure.outcome for failure in order]

    async def _settle(self, batch: Sequence[Outcome]) -> tuple[Exception | None, bool]:
        """Settle what can be settled; return the last error, and whether anything was settled."""
        pieces = deque(batch[at : at + self._max_batch] for at in range(0, len(batch), self._max_batch))
        alone, has_settled = 0, False
        last: Exception | None = None
        while pieces:
            piece = pieces.popleft()
            try:
                fates = await self._settle_piece(piece)
            except FINAL:
                raise
            except InvalidInput as error:
                pieces.extendleft(_split_invalid(piece, error))
            except Exception as error:
                last = error
                is_away = isinstance(error, QueueUnavailable)
                if len(piece) > 1 and not is_away:
                    pieces.extendleft([piece[len(piece) // 2 :], piece[: len(piece) // 2]])
                    continue
                self._record_failure(piece, error)
                alone += 1
                if is_away or (alone >= MAX_FAILURES and not has_settled):
                    for rest in pieces:
                        self._keep_for_retry(rest, error)
                    break
            else:
                self._on_settled(piece, fates)
                has_settled = True
        return last, has_settled

    async def _settle_piece(self, piece: Sequence[Outcome]) -> list[Fate]:
        began = exact_time()
        try:
            fates = await self._queue.settle(piece)
        except QueueError as error:
            for observer in self._observers:
                observer.on_queue_error("settle", error)
            if isinstance(error, QueueUnavailable):
                # Perhaps the store does reply, but not to a batch of this size.
                self._max_batch = max(1, len(piece) // 2)
            raise
        for observer in self._observers:
            ended = exact_time()
            for outcome, fate in zip(piece, fates, strict=True):
                observer.on_settle(outcome, fate, began, ended)
        self._max_batch = min(2 * self._max_batch, MAX_BATCH)
        for outcome in piece:
            self._failures.pop(key_of(outcome.lease), None)
        return fates

    def _record_failure(self, piece: Sequence[Outcome], error: Exception) -> None:
        self._keep_for_retry(piece, error)
        for failure in (self._failures[key_of(outcome.lease)] for outcome in piece):
            if isinstance(error, TRANSIENT):
                failure.since = None
            elif failure.is_last:
                raise SettleFailed(len(self._failures), error_text(error)) from error
            elif failure.since is None:
                failure.since = exact_time()

    def _keep_for_retry(self, piece: Sequence[Outcome], error: Exception) -> None:
        for outcome in piece:
            failure = self._failures.setdefault(key_of(outcome.lease), _SettleFailure(outcome, error))
            failure.error = error


def _split_invalid(piece: Sequence[Outcome], error: InvalidInput) -> list[list[Outcome]]:
    """Return the pieces to settle instead: one outcome carries what cannot be stored, and is buried."""
    if len(piece) == 1:
        return [[Bury(piece[0].lease, error)]]
    # Reversed, because `extendleft` reverses them again.
    return [[outcome] for outcome in reversed(piece)]


BATCH = 100
MAX_WAITING = 20 * BATCH
LINGER = 0.05  # seconds in which outcomes are collected while other tasks are in progress


class Settlements:
    """Settles outcomes in batches; while one batch is on its way, the next one is collected."""

    def __init__(
        self,
        queue: Queue,
        on_settled: OnSettled,
        *,
        give_up_after: timedelta = MINUTE,
        observers: Sequence[Observer] = (),
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Call `before` each batch: what belongs to its outcomes is stored first."""
        self._before = before
        self._settler = Settler(queue, on_settled, give_up_after=give_up_after, observers=observers)
        self._waiting: list[Outcome] = []
        self._some = asyncio.Event()
        self._full = asyncio.Event()
        self._has_capacity = asyncio.Event()
        self._has_capacity.set()
        self._closing = self._stopping = False
        self.urgent = False  # something waits for what an outcome frees, so it is settled without lingering

    def __len__(self) -> int:
        return len(self._waiting) + len(self._settler)

    def put(self, outcome: Outcome) -> None:
        """Add an outcome."""
        self._waiting.append(outcome)
        self._some.set()
        if self.urgent or len(self._waiting) >= BATCH:
            self._full.set()
        self._update_capacity()

    def flush(self) -> None:
        """Settle what is there without waiting for more."""
        self._full.set()

    async def wait_for_capacity(self) -> None:
        """Wait until the queue has caught up, so that outcomes do not pile up in memory, or until `stop`."""
        await self._has_capacity.wait()

    def stop(self) -> None:
        """Let nothing wait for capacity any more: no more tasks will be claimed."""
        self._stopping = True
        self._update_capacity()
        self.flush()

    def close(self) -> None:
        """Settle the rest and end `run`."""
        self._closing = True
        self._some.set()
        self._full.set()

    async def run(self) -> None:
        """Settle until closed; raises SettleFailed when an outcome can be neither settled nor buried."""
        while True:
            await self._wait_for_batch()
            self._some.clear()
            self._full.clear()
            batch, self._waiting = self._waiting, []
            self._update_capacity()
            if batch and self._before:
                await self._before()
            await self._settler.settle(batch)
            self._update_capacity()
            if self._closing:
                self._some.set()
                self._full.set()
                if not len(self):
                    return

    async def _wait_for_batch(self) -> None:
        """Wait until outcomes are collected, or some are due for a retry."""
        retry_at = self._settler.retry_at
        with suppress(TimeoutError):
            async with asyncio.timeout_at(retry_at):
                if self._settler.is_down or (self._closing and retry_at):
                    await asyncio.Event().wait()  # for the retry, which takes all that was added until then
                await self._some.wait()
                await wait_for_event(self._full, LINGER)

    def _update_capacity(self) -> None:
        if len(self) < MAX_WAITING or self._stopping:
            self._has_capacity.set()
        else:
            self._has_capacity.clear()


Verdict = tuple[Outcome, Fate]


class WaitingCallers:
    """Passes the outcome of each lease to its caller as soon as the queue has settled it."""

    def __init__(self) -> None:
        self._waiting: dict[LeaseKey, asyncio.Future[Verdict]] = {}
        self._follow: dict[LeaseKey, Sequence[Task]] = {}

    def wait_for(self, lease: Lease) -> asyncio.Future[Verdict]:
        """Return the future outcome of a lease and its fate."""
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._waiting[key_of(lease)] = future
        return future

    def withhold_links(self, outcome: Outcome) -> Outcome:
        """Return an outcome as the queue gets it: a call is for one page, and starts no crawl."""
        key = key_of(outcome.lease)
        if key not in self._waiting or not isinstance(outcome, Done):
            return outcome
        self._follow[key] = outcome.follow
        return replace(outcome, follow=())

    def resolve(self, outcome: Outcome, fate: Fate) -> None:
        """Pass an outcome to the caller of its lease, if there is one, together with the page's links."""
        key = key_of(outcome.lease)
        follow = self._follow.pop(key, ())
        future = self._waiting.pop(key, None)
        if future and not future.done():
            whole = replace(outcome, follow=follow) if isinstance(outcome, Done) else outcome
            future.set_result((whole, fate))
