"""How many tasks of a worker are in progress at once, and how many bytes of pages it may hold.

Both only count: times are the worker's clock in seconds, passed in, and nothing here waits.
"""

import math

CONCURRENCY = 64  # default for requests in flight and running steps
MAX_SLOW = 1_000  # slow requests beyond them, unless the user sets `concurrency`, which is then the total
# A request that has waited for its host this long counts as slow, unless the event loop lags: then the CPU is
# busy already, and more tasks would only take memory.
SLOW = 0.1  # seconds
MAX_LOOP_LAG = 0.005  # seconds
TIMER_RESOLUTION = 0.001  # seconds by which a timer may fire too early
# A worker prefetches as much work as it does in this time, so that it does not hoard tasks of the others.
HORIZON = 2.0  # seconds
WEIGHT = 0.1  # of the newest value in the moving average


class ConcurrencySlots:
    """Counts tasks in progress: at most `concurrency` of them start, and at most as many run their step.

    Without an explicit `concurrency`, `max_slow` more requests whose hosts are slow may wait for a response
    without a slot. To run its step, such a task needs a slot again.
    """

    def __init__(self, concurrency: int | None, max_in_flight: float = math.inf) -> None:
        """Start tasks; of both kinds together, no more than `max_in_flight`."""
        self._max_in_flight = max_in_flight
        self.set_concurrency(concurrency)
        self._since: dict[int, float] = {}  # when each task got its slot
        self._slow_at: dict[int, float] = {}  # when each waiting request may count as slow, the first first
        self._slow: set[int] = set()
        self._steps: set[int] = set()
        self._waiting: dict[int, None] = {}  # to run their step, the first first
        self._mean: float | None = None  # seconds that a task has its slot
        self._freed_at = 0.0

    def set_concurrency(self, concurrency: int | None) -> None:
        """Use another number of slots from now on; tasks in progress keep theirs."""
        self.wanted = (concurrency or CONCURRENCY) + (MAX_SLOW if concurrency is None else 0)
        self.concurrency = int(min(concurrency or CONCURRENCY, self._max_in_flight))
        self.max_slow = int(min(self.wanted, self._max_in_flight)) - self.concurrency

    @property
    def taken(self) -> int:
        """The number of tasks that have a slot."""
        return len(self._since)

    @property
    def is_free(self) -> bool:
        """Whether another task may start."""
        return len(self._since) < self.concurrency

    def is_stuck(self, now: float) -> bool:
        """Return whether no slot has become free for longer than the prefetch horizon."""
        return not self.is_free and now - max(self._freed_at, *self._since.values()) > HORIZON

    def prefetch_limit(self, batch: int, now: float) -> int:
        """Return how many leases are worth holding beyond those in progress, at most a batch."""
        if self.is_stuck(now):
            return 0
        if self._mean is None:
            return min(batch, self.concurrency)
        return min(batch, math.ceil(self.concurrency * HORIZON / max(self._mean, 0.001)))

    def take(self, number: int, now: float) -> None:
        """Give a task a slot; it must be started now."""
        self._since[number] = now

    def leave(self, number: int, now: float) -> None:
        """End a task, whatever it is doing."""
        self._slow_at.pop(number, None)
        self._slow.discard(number)
        self._free_slot(number, now)

    def wait_for_host(self, number: int, now: float) -> None:
        """Record that a task now waits for its host, and for nothing in this worker."""
        if self.max_slow and number in self._since and number not in self._slow_at:
            self._slow_at[number] = now + SLOW

    def stop_waiting(self, number: int, now: float) -> None:
        """Record that a task no longer waits for its host; it has a slot again."""
        self._slow_at.pop(number, None)
        if number in self._slow:
            self._slow.discard(number)
            # It counts from now on, so that no other task starts before those that got a response are done.
            self._since[number] = now

    @property
    def next_slow_at(self) -> float | None:
        """When a waiting request may next count as slow."""
        return next(iter(self._slow_at.values()), None)

    def free_slow(self, now: float) -> bool:
        """Take the slots of requests that have become slow; return whether there was one."""
        is_any = False
        while (due := self.next_slow_at) is not None and due <= now + TIMER_RESOLUTION:
            number = next(iter(self._slow_at))
            del self._slow_at[number]
            if len(self._slow) >= self.max_slow or now - due > MAX_LOOP_LAG:
                self._slow_at[number] = now + SLOW
                continue
            self._slow.add(number)
            self._free_slot(number, now)
            is_any = True
        return is_any

    def begin_step(self, number: int, now: float) -> bool:
        """Return whether a task may run its step; if not, `end_step` of another one returns its number."""
        self.stop_waiting(number, now)
        if len(self._steps) < self.concurrency:
            self._steps.add(number)
            return True
        self._waiting[number] = None
        return False

    def end_step(self, number: int) -> int | None:
        """End a task's step, or give it up before it began; return the task whose step may run now."""
        if number not in self._steps:
            self._waiting.pop(number, None)
            return None
        self._steps.discard(number)
        following = next(iter(self._waiting), None)
        if following is not None:
            del self._waiting[following]
            self._steps.add(following)
        return following

    def _free_slot(self, number: int, now: float) -> None:
        since = self._since.pop(number, None)
        if since is not None:
            self._freed_at = now
            held = now - since
            self._mean = held if self._mean is None else self._mean + WEIGHT * (held - self._mean)


MAX_PAGE_BYTES = 256 << 20


class MemoryLimit:
    """Says which pages must wait while too many bytes are held; the oldest never does, so all of them finish.

    The held bytes stay below the limit, except for one page and a chunk of each other page.
    """

    def __init__(self, max_bytes: int = MAX_PAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held: dict[int, int] = {}  # by the number of the lease, the oldest first
        self._used = 0

    @property
    def used(self) -> int:
        """The number of bytes that are held."""
        return self._used

    def reserve(self, number: int, size: int) -> None:
        """Count more bytes of a page."""
        self._held[number] = self._held.get(number, 0) + size
        self._used += size

    def must_wait(self, number: int) -> bool:
        """Return whether a page that has reserved bytes must wait until others are released."""
        return self._used > self._max_bytes and next(iter(self._held)) != number

    def release(self, number: int) -> bool:
        """Release the bytes of a page; return whether it held any."""
        if number not in self._held:
            return False
        self._used -= self._held.pop(number)
        return True
