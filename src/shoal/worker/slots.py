"""How many tasks of a worker are in progress at once, and how many bytes of pages it may hold."""

import asyncio
import math
from collections import deque
from collections.abc import Callable

AT_ONCE = 64  # default for requests in flight and running steps
SLOW_REQUESTS = 1_000  # default for slow requests beyond them, unless the user sets `at_once`
# A request that has waited for its host this long counts as slow, unless the event loop lags: then the CPU is
# busy already, and more tasks would only take memory.
SLOW = 0.1  # seconds
MAX_LAG = 0.005  # seconds
# A worker prefetches as much work as it does in this time, so that it does not hoard tasks of the others.
HORIZON = 2.0  # seconds
WEIGHT = 0.1  # of the newest value in the moving average


class ConcurrencySlots:
    """Counts tasks in progress: at most `at_once` of them start, and at most as many run their step.

    Of requests whose hosts are slow, `slow_requests` more may wait for a response without a slot. To run its
    step, such a task needs a slot again.
    """

    def __init__(self, at_once: int, slow_requests: int, on_free: Callable[[], None]) -> None:
        self._at_once, self._slow_requests, self._on_free = at_once, slow_requests, on_free
        self._since: dict[int, float] = {}  # when each task got its slot
        self._timers: dict[int, asyncio.TimerHandle] = {}  # of requests that may become slow
        self._slow: set[int] = set()
        self._steps: set[int] = set()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()  # to run their step
        self._mean: float | None = None  # seconds that a task has its slot
        self._freed_at = 0.0

    @property
    def taken(self) -> int:
        """The number of tasks that have a slot."""
        return len(self._since)

    @property
    def is_free(self) -> bool:
        """Whether another task may start."""
        return len(self._since) < self._at_once

    @property
    def is_stuck(self) -> bool:
        """Whether no slot has become free for longer than the prefetch horizon."""
        return not self.is_free and _now() - max(self._freed_at, *self._since.values()) > HORIZON

    def prefetch_limit(self, batch: int) -> int:
        """Return how many leases are worth holding beyond those in progress, at most a batch."""
        if self.is_stuck:
            return 0
        if self._mean is None:
            return min(batch, self._at_once)
        return min(batch, math.ceil(self._at_once * HORIZON / max(self._mean, 0.001)))

    def take(self, number: int) -> None:
        """Give a task a slot; it must be started now."""
        self._since[number] = _now()

    def leave(self, number: int) -> None:
        """End a task, whatever it is doing."""
        self._stop_timer(number)
        self._slow.discard(number)
        self._free_slot(number)

    def wait_for_host(self, number: int) -> None:
        """Record that a task now waits for its host, and for nothing in this worker."""
        if self._slow_requests and number in self._since and number not in self._timers:
            self._start_timer(number)

    def stop_waiting(self, number: int) -> None:
        """Record that a task no longer waits for its host; it has a slot again."""
        self._stop_timer(number)
        if number in self._slow:
            self._slow.discard(number)
            # It counts from now on, so that no other task starts before those that got a response are done.
            self._since[number] = _now()

    async def begin_step(self, number: int) -> None:
        """Wait until a task may run its step; `end_step` must follow, whatever happens here."""
        self.stop_waiting(number)
        if len(self._steps) < self._at_once:
            self._steps.add(number)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((number, turn))
        await turn

    def end_step(self, number: int) -> None:
        """Record that a task's step has ended, or was given up before it began."""
        if number not in self._steps:
            return
        self._steps.discard(number)
        while self._waiting:
            following, turn = self._waiting.popleft()
            if not turn.done():  # else its task was cancelled
                self._steps.add(following)
                turn.set_result(None)
                return

    def _start_timer(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + SLOW
        self._timers[number] = loop.call_at(due, self._on_timer, number, due)

    def _on_timer(self, number: int, due: float) -> None:
        if len(self._slow) >= self._slow_requests or _now() - due > MAX_LAG:
            self._start_timer(number)
            return
        del self._timers[number]
        self._slow.add(number)
        self._free_slot(number)
        self._on_free()

    def _stop_timer(self, number: int) -> None:
        if timer := self._timers.pop(number, None):
            timer.cancel()

    def _free_slot(self, number: int) -> None:
        since = self._since.pop(number, None)
        if since is not None:
            self._freed_at = _now()
            held = self._freed_at - since
            self._mean = held if self._mean is None else self._mean + WEIGHT * (held - self._mean)


def _now() -> float:
    return asyncio.get_running_loop().time()


MAX_PAGE_BYTES = 256 << 20


class MemoryLimit:
    """Pauses the reading of bodies while too many bytes are held; the oldest goes on, so all of them finish.

    The held bytes stay below the limit, except for one page and a chunk of each other page.
    """

    def __init__(self, max_bytes: int = MAX_PAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held: dict[int, int] = {}  # by the number of the lease, the oldest first
        self._used = 0
        self._freed = asyncio.Event()

    @property
    def used(self) -> int:
        """The number of bytes that are held."""
        return self._used

    async def reserve(self, number: int, size: int) -> None:
        """Reserve more bytes for a page, and wait until they are available."""
        self._held[number] = self._held.get(number, 0) + size
        self._used += size
        while self._used > self._max_bytes and next(iter(self._held)) != number:
            self._freed.clear()
            await self._freed.wait()

    def release(self, number: int) -> None:
        """Release the bytes of a page."""
        if number in self._held:
            self._used -= self._held.pop(number)
            self._freed.set()
