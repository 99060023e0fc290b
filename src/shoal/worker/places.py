"""How many tasks of a worker are in progress at once: its requests in flight, and its steps that run."""

import asyncio
import math
from collections import deque
from collections.abc import Callable

AT_ONCE = 64  # requests in flight and steps that run, where nobody says how many
SLOW_REQUESTS = 1_000  # beyond them, where nobody says how many there are to be at once
# A request that has waited for its host this long counts as slow, unless the event loop lags: then there is
# work enough for the processor, and more tasks would only take memory.
SLOW = 0.1  # seconds
LAGGING = 0.005
# As much work is claimed ahead as fills this time, so that what one worker holds is not missed by the others.
HORIZON = 2.0  # seconds
WEIGHT = 0.1  # of the newest in the average


class Places:
    """Counts tasks in progress: at most `at_once` of them start, and at most as many run their step.

    Of requests whose hosts are slow, `slow_requests` more may wait for a response without a place. To run its
    step, such a task needs a place again.
    """

    def __init__(self, at_once: int, slow_requests: int, on_free: Callable[[], None]) -> None:
        self._at_once, self._slow_requests, self._on_free = at_once, slow_requests, on_free
        self._since: dict[int, float] = {}  # when each task got its place
        self._timers: dict[int, asyncio.TimerHandle] = {}  # of requests that may become slow
        self._slow: set[int] = set()
        self._steps: set[int] = set()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()  # for their step
        self._mean: float | None = None  # seconds that a task has its place
        self._freed_at = 0.0

    @property
    def taken(self) -> int:
        """How many tasks have a place."""
        return len(self._since)

    @property
    def is_free(self) -> bool:
        """Whether another task may start."""
        return len(self._since) < self._at_once

    @property
    def is_stuck(self) -> bool:
        """Whether no place has become free for longer than work is claimed ahead."""
        return not self.is_free and _now() - max(self._freed_at, *self._since.values()) > HORIZON

    def ahead(self, batch: int) -> int:
        """Return how many leases are worth holding beyond those in progress, a batch at most."""
        if self.is_stuck:
            return 0
        if self._mean is None:
            return min(batch, self._at_once)
        return min(batch, math.ceil(self._at_once * HORIZON / max(self._mean, 0.001)))

    def take(self, number: int) -> None:
        """Let a task have a place; it must be started now."""
        self._since[number] = _now()

    def leave(self, number: int) -> None:
        """End a task, wherever it is."""
        self._stop_timer(number)
        self._slow.discard(number)
        self._give(number)

    def wait_for_host(self, number: int) -> None:
        """Say that a task waits for its host now, and for nothing of this worker."""
        if self._slow_requests and number in self._since and number not in self._timers:
            self._look_later(number)

    def stop_waiting(self, number: int) -> None:
        """Say that a task no longer waits for its host; it has a place again."""
        self._stop_timer(number)
        if number in self._slow:
            self._slow.discard(number)
            # It counts from now on, so that no other task starts before those that have come back are done.
            self._since[number] = _now()

    async def run_step(self, number: int) -> None:
        """Wait until a task may run its step; `end_step` must follow, whatever happens here."""
        self.stop_waiting(number)
        if len(self._steps) < self._at_once:
            self._steps.add(number)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((number, turn))
        await turn

    def end_step(self, number: int) -> None:
        """Say that a task's step has ended, or was given up before it began."""
        if number not in self._steps:
            return
        self._steps.discard(number)
        while self._waiting:
            following, turn = self._waiting.popleft()
            if not turn.done():  # else its task was cancelled
                self._steps.add(following)
                turn.set_result(None)
                return

    def _look_later(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + SLOW
        self._timers[number] = loop.call_at(due, self._look, number, due)

    def _look(self, number: int, due: float) -> None:
        if len(self._slow) >= self._slow_requests or _now() - due > LAGGING:
            self._look_later(number)
            return
        del self._timers[number]
        self._slow.add(number)
        self._give(number)
        self._on_free()

    def _stop_timer(self, number: int) -> None:
        if timer := self._timers.pop(number, None):
            timer.cancel()

    def _give(self, number: int) -> None:
        since = self._since.pop(number, None)
        if since is not None:
            self._freed_at = _now()
            held = self._freed_at - since
            self._mean = held if self._mean is None else self._mean + WEIGHT * (held - self._mean)


def _now() -> float:
    return asyncio.get_running_loop().time()
