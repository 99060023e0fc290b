"""Timeouts that share one timer: a timer for each would be the most expensive part of a fetch."""

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Self

CHECK_INTERVAL_SECONDS = 0.05  # by which a timeout may be late


class Deadlines:
    """Tracks all deadlines of one event loop."""

    def __init__(self) -> None:
        self._watched: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def within(self, span: timedelta) -> "Deadline":
        """Return a context manager that raises TimeoutError when its block takes longer than the span."""
        return Deadline(self, span.total_seconds())

    def watch(self, deadline: "Deadline") -> float:
        """Start to watch a deadline; return the current time."""
        loop = asyncio.get_running_loop()
        self._watched.add(deadline)
        if self._timer is None or self._loop is not loop:
            self._loop, self._timer = loop, loop.call_later(CHECK_INTERVAL_SECONDS, self._tick, loop)
        return loop.time()

    def forget(self, deadline: "Deadline") -> None:
        """Stop watching a deadline."""
        self._watched.discard(deadline)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for late in [deadline for deadline in self._watched if deadline.at <= now]:
            self._watched.discard(late)
            late.expire()
        self._timer = loop.call_later(CHECK_INTERVAL_SECONDS, self._tick, loop) if self._watched else None


class Deadline:
    """A block that must end in time, with the semantics of `asyncio.timeout`; `suspended` is not counted."""

    __slots__ = (
        "_all",
        "_cancelled_before",
        "_left",
        "_seconds",
        "_suspended_at",
        "_suspensions",
        "_task",
        "at",
        "has_expired",
        "suspended",
    )

    def __init__(self, all_: Deadlines, seconds: float) -> None:
        self._all, self._seconds = all_, seconds
        self.suspended, self._suspensions = 0.0, 0  # seconds; parts of the block that are not counted now
        self.has_expired = False  # the block took too long, rather than raising a TimeoutError of its own

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelled_before = task, task.cancelling()
        self.at = self._all.watch(self) + self._seconds
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, _: object) -> None:
        if not self.has_expired:
            self._all.forget(self)
        # A cancellation that came from elsewhere in the meantime must not be swallowed.
        elif self._task.uncancel() <= self._cancelled_before and kind is asyncio.CancelledError:
            raise TimeoutError from exc

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Stop the clock during a part of the block; parts may overlap."""
        now = asyncio.get_running_loop().time
        if self._suspensions == 0:
            self._left, self._suspended_at, self.at = self.at - now(), now(), math.inf
        self._suspensions += 1
        try:
            yield
        finally:
            self._suspensions -= 1
            if self._suspensions == 0:
                self.at, self.suspended = now() + self._left, self.suspended + now() - self._suspended_at

    def expire(self) -> None:
        """Cancel the block."""
        self.has_expired = True
        self._task.cancel()
