"""What a task in progress waits for: its host, the turn of its step, memory for its page."""

import asyncio
import logging
from collections.abc import Callable

from shoal.core.events import STARTS_LATE, as_event
from shoal.core.tasks import call_at, exact_time
from shoal.worker.prefetch import ScheduledLease
from shoal.worker.scheduler import Scheduler

LATE_LOG_INTERVAL_SECONDS = 60.0

log = logging.getLogger(__name__)


class TaskWaits:
    """Lets tasks wait as the scheduler decides; calls `on_slot_free` when a slow request leaves its slot."""

    def __init__(self, scheduler: Scheduler, on_slot_free: Callable[[], None] = lambda: None) -> None:
        self._scheduler, self._slots, self._memory = scheduler, scheduler.slots, scheduler.memory
        self._on_slot_free = on_slot_free
        self._slow_timer: asyncio.TimerHandle | None = None  # one for all requests
        self._turns: dict[int, asyncio.Future[None]] = {}  # of tasks whose step waits
        self._memory_freed = asyncio.Event()
        self._late_logged_at: float | None = None

    def try_request(self, start: ScheduledLease) -> bool:
        """Return whether a task may still send its request; if so, the request counts as sent."""
        now = exact_time()
        may_request = self._scheduler.try_request(start, now)
        if may_request and self._scheduler.is_always_late:
            self._log_late_start(now, now - start.due)
        return may_request

    def _log_late_start(self, now: float, late: float) -> None:
        if self._late_logged_at is None or now - self._late_logged_at >= LATE_LOG_INTERVAL_SECONDS:
            self._late_logged_at = now
            log.warning(
                "Requests start late more often than not (now by %.0f ms). If several workers share a host, "
                "their requests to it may follow each other sooner than its delay: start fewer workers on "
                "this machine, or use a queue that responds faster",
                1000 * late,
                extra=as_event(STARTS_LATE),
            )

    def wait_for_host(self, number: int) -> None:
        """Record that a task now waits for its host, and for nothing in this worker."""
        self._slots.wait_for_host(number, exact_time())
        if self._slow_timer is None:
            self._set_slow_timer()

    def stop_waiting(self, number: int) -> None:
        """Record that a task no longer waits for its host; it has a slot again."""
        self._slots.stop_waiting(number, exact_time())

    async def begin_step(self, number: int) -> None:
        """Wait until a task may run its step; `end_step` must follow, whatever happens here."""
        if not self._slots.begin_step(number, exact_time()):
            turn = self._turns[number] = asyncio.get_running_loop().create_future()
            await turn

    def end_step(self, number: int) -> None:
        """Record that a task's step has ended, or was given up before it began."""
        self._turns.pop(number, None)
        following = self._slots.end_step(number)
        turn = None if following is None else self._turns.pop(following, None)
        if turn and not turn.done():  # else its task was cancelled, and passes the turn on when it ends
            turn.set_result(None)

    async def reserve_memory(self, number: int, size: int) -> None:
        """Reserve more bytes for a page, and wait until they are available."""
        self._memory.reserve(number, size)
        while self._memory.must_wait(number):
            self._memory_freed.clear()
            await self._memory_freed.wait()

    def release_memory(self, number: int) -> None:
        """Release the bytes of a page."""
        if self._memory.release(number):
            self._memory_freed.set()

    def _set_slow_timer(self) -> None:
        due = self._slots.next_slow_at
        self._slow_timer = None if due is None else call_at(due, self._free_slow)

    def _free_slow(self) -> None:
        is_any = self._slots.free_slow(exact_time())
        self._set_slow_timer()
        if is_any:
            self._on_slot_free()
