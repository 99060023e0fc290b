"""Settling one batch of outcomes, whatever the queue has against it."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from shoal.core.errors import InvalidInput, QueueUnavailable, SettleFailed
from shoal.core.model import Bury, Fate, Outcome, error_text
from shoal.queue.contract import Queue
from shoal.worker.retrying import FINAL, PASSING, Retrying

LARGEST_BATCH = 500
MOST_FAILURES = 3  # of single outcomes, while none is settled: then it is the store that fails, not they

OnSettled = Callable[[Sequence[Outcome], Sequence[Fate]], None]


@dataclass(slots=True)
class _Failure:
    """An outcome that the queue did not take."""

    outcome: Outcome
    error: Exception
    since: float | None = None  # when it first failed by itself, and not because the store is away or full
    is_last: bool = False  # the outcome is the Bury of what could not be settled


class Settler:
    """Settles outcomes; what cannot be settled is kept for the next try, and stops nothing else.

    A batch that fails is split. An outcome that fails by itself for `give_up_after` is buried instead; if the
    queue does not take that either, SettleFailed is raised. A store that is away, full or read-only is waited
    for without end.
    """

    def __init__(self, queue: Queue, on_settled: OnSettled, *, give_up_after: timedelta) -> None:
        self._queue, self._on_settled = queue, on_settled
        self._give_up_after = give_up_after.total_seconds()
        self._retrying = Retrying("settle what it has done", give_up_after)
        self._failures: dict[tuple[str, int], _Failure] = {}
        self._largest = LARGEST_BATCH
        self.retry_at: float | None = None  # by the loop's clock, if there is something to be tried again
        self.is_down = False  # the last try settled nothing

    def __len__(self) -> int:
        return len(self._failures)

    async def settle(self, outcomes: Sequence[Outcome]) -> None:
        """Settle these, and what is due to be tried again."""
        batch = [*self._due(), *outcomes]
        if not batch:
            return
        error, has_settled = await self._settle(batch)
        if not self._failures:
            self._retrying.succeeded()
        self.is_down = error is not None and not has_settled
        if not self._failures:
            self.retry_at = None
        elif error:
            self.retry_at = _now() + self._retrying.wait(error)

    def _due(self) -> list[Outcome]:
        """Return what is to be tried again now; first what is given up, last what has failed by itself."""
        if self.retry_at is None or _now() < self.retry_at:
            return []
        given_up_before = _now() - self._give_up_after
        for failure in self._failures.values():
            if failure.since is not None and failure.since <= given_up_before and not failure.is_last:
                text = f"SettleFailed: the queue did not take what came of it: {error_text(failure.error)}"
                failure.outcome, failure.is_last = Bury(failure.outcome.lease, text), True
        order = sorted(self._failures.values(), key=lambda one: (not one.is_last, one.since is not None))
        return [failure.outcome for failure in order]

    async def _settle(self, batch: Sequence[Outcome]) -> tuple[Exception | None, bool]:
        """Settle what can be; return the last error, and whether anything was settled."""
        pieces = deque(batch[at : at + self._largest] for at in range(0, len(batch), self._largest))
        alone, has_settled, last = 0, False, None
        while pieces:
            piece = pieces.popleft()
            try:
                fates = await self._take(piece)
            except FINAL:
                raise
            except InvalidInput as error:
                pieces.extendleft(_apart(piece, error))
            except Exception as error:
                last = error
                is_away = isinstance(error, QueueUnavailable)
                if len(piece) > 1 and not is_away:
                    pieces.extendleft([piece[len(piece) // 2 :], piece[: len(piece) // 2]])
                    continue
                self._fail(piece, error)
                alone += 1
                if is_away or (alone >= MOST_FAILURES and not has_settled):
                    for rest in pieces:
                        self._keep(rest, error)
                    break
            else:
                self._on_settled(piece, fates)
                has_settled = True
        return last, has_settled

    async def _take(self, piece: Sequence[Outcome]) -> list[Fate]:
        try:
            fates = await self._queue.settle(piece)
        except QueueUnavailable:
            # Perhaps the store does answer, but not to so much at a time.
            self._largest = max(1, len(piece) // 2)
            raise
        self._largest = min(2 * self._largest, LARGEST_BATCH)
        for outcome in piece:
            self._failures.pop(_name(outcome), None)
        return fates

    def _fail(self, piece: Sequence[Outcome], error: Exception) -> None:
        self._keep(piece, error)
        for failure in (self._failures[_name(outcome)] for outcome in piece):
            if isinstance(error, PASSING):
                failure.since = None
            elif failure.is_last:
                raise SettleFailed(len(self._failures), error_text(error)) from error
            elif failure.since is None:
                failure.since = _now()

    def _keep(self, piece: Sequence[Outcome], error: Exception) -> None:
        for outcome in piece:
            failure = self._failures.setdefault(_name(outcome), _Failure(outcome, error))
            failure.error = error


def _apart(piece: Sequence[Outcome], error: InvalidInput) -> list[list[Outcome]]:
    """Return the pieces to settle instead: one outcome carries what cannot be stored, and is buried."""
    if len(piece) == 1:
        return [[Bury(piece[0].lease, error)]]
    # Backwards, as a queue's left end takes them.
    return [[outcome] for outcome in reversed(piece)]


def _name(outcome: Outcome) -> tuple[str, int]:
    return outcome.lease.task_id, outcome.lease.token


def _now() -> float:
    return asyncio.get_running_loop().time()
