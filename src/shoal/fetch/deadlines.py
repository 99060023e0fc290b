"""Ends what takes too long, with one timer for all: one for each would be the dearest part of a fetch."""

import asyncio
from datetime import timedelta
from typing import Self

TICK = 0.05  # seconds by which an end may come late


class Deadlines:
    """Watches over everything that is under way in one event loop."""

    def __init__(self) -> None:
        self._watched: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def within(self, span: timedelta) -> "Deadline":
        """Return a block that raises TimeoutError when it takes longer than the span."""
        return Deadline(self, span.total_seconds())

    def watch(self, deadline: "Deadline") -> float:
        """Watch over a deadline from now on; return the time."""
        loop = asyncio.get_running_loop()
        self._watched.add(deadline)
        if self._timer is None or self._loop is not loop:
            self._loop, self._timer = loop, loop.call_later(TICK, self._tick, loop)
        return loop.time()

    def forget(self, deadline: "Deadline") -> None:
        """Watch over a deadline no longer."""
        self._watched.discard(deadline)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for late in [deadline for deadline in self._watched if deadline.at <= now]:
            self._watched.discard(late)
            late.expire()
        self._timer = loop.call_later(TICK, self._tick, loop) if self._watched else None


class Deadline:
    """A block of a task that must end in time, as `asyncio.timeout` makes it."""

    __slots__ = ("_all", "_cancelled_before", "_expired", "_seconds", "_task", "at")

    def __init__(self, all_: Deadlines, seconds: float) -> None:
        self._all, self._seconds, self._expired = all_, seconds, False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelled_before = task, task.cancelling()
        self.at = self._all.watch(self) + self._seconds
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, _: object) -> None:
        if not self._expired:
            self._all.forget(self)
        # Whoever else has cancelled the task meanwhile is not to be disappointed.
        elif self._task.uncancel() <= self._cancelled_before and kind is asyncio.CancelledError:
            raise TimeoutError from exc

    def expire(self) -> None:
        """End the block."""
        self._expired = True
        self._task.cancel()
