"""The places of a worker: how many of its tasks may be under way at once."""

import asyncio
from collections.abc import Callable

# A task that has waited for its host this long no longer keeps others from starting, unless the event loop
# lags: then there is work enough for the processor, and more tasks would only take memory.
SLOW = 0.1  # seconds
LAGGING = 0.005


class Places:
    """Counts the tasks that hold a place; one that takes its time gives it up, and goes on without."""

    def __init__(self, is_held_up: Callable[[int], bool], on_free: Callable[[], None]) -> None:
        # One that waits for a tab of this worker's browser keeps its place: more tasks would wait for it too.
        self._is_held_up, self._on_free = is_held_up, on_free
        self._timers: dict[int, asyncio.TimerHandle] = {}  # of every task under way
        self._slow: set[int] = set()
        self.taken = 0

    def take(self, number: int) -> None:
        """Let a task have a place; it must be started now."""
        self.taken += 1
        self._look_later(number)

    def leave(self, number: int) -> None:
        """End a task, and with it the place that it may still have."""
        self._timers.pop(number).cancel()
        if number in self._slow:
            self._slow.discard(number)
        else:
            self.taken -= 1

    def _look_later(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + SLOW
        self._timers[number] = loop.call_at(due, self._look, number, due)

    def _look(self, number: int, due: float) -> None:
        if self._is_held_up(number) or asyncio.get_running_loop().time() - due > LAGGING:
            self._look_later(number)
            return
        self._slow.add(number)
        self.taken -= 1
        self._on_free()
