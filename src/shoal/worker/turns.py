"""When a step may send a request: its host has a turn by the clock, and a free one of `per_host` slots."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from shoal.core.errors import NotNow, QueueError
from shoal.core.model import SECOND, ZERO, Note
from shoal.core.procfs import is_process_running, pid_scope
from shoal.core.tasks import exact_time, wait_for_event
from shoal.queue.contract import Queue
from shoal.worker.prefetch import lag_of, spread_of, tolerance_of

SLOTS = "request slots"
MAX_HOSTS = 10_000  # whose locks are kept
OUTAGE_WAIT = 10 * SECOND  # until a task is tried again that the queue gave no turn
POLL_INTERVAL_SECONDS = 0.1  # between two looks of a worker at the slots of a host that are all taken
# A turn that has passed is given up. The next one lasts longer, by this share of the gap, so that a machine
# that is often late sends something; one that is always late uses the last of these however late it is.
LONGER = (0.0, 0.25, 0.5, 1.0, 2.0)
SPARE = 10 * SECOND  # that a slot of a machine which died stays taken beyond the timeout of its request


class HostTurns:
    """Waits until a host may get a request that has no lease of it."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._locks: dict[str, asyncio.Lock] = {}
        self._freed = asyncio.Event()

    async def take(self, host: str, gap: timedelta) -> None:
        """Wait for a turn, and use it; raises NotNow if the queue cannot give one."""
        if gap <= ZERO:
            return
        for longer in LONGER:
            try:
                wait = await self._queue.take_turn(host, gap * (1 + longer))
            except QueueError as error:
                raise _not_now(host, error) from error
            # Delayed like the starts of tasks, or it would come too close to the one before.
            delay = wait.total_seconds() + lag_of(gap) * spread_of(host)
            due = exact_time() + delay
            await asyncio.sleep(delay)
            if exact_time() <= due + tolerance_of(gap) + longer * gap.total_seconds():
                return

    @asynccontextmanager
    async def slot(self, host: str, limit: int, timeout: timedelta) -> AsyncIterator[None]:
        """Be one of at most `limit` requests of steps to a host, over all workers; raises NotNow."""
        try:
            async with self._lock_of(host):
                key, stamp = await self._take_slot(host, limit, timeout + SPARE)
        except QueueError as error:
            raise _not_now(host, error) from error
        try:
            yield
        finally:
            with suppress(QueueError):
                await self._queue.swap_note(SLOTS, key, None, stamp=stamp)
            self._freed.set()

    async def _take_slot(self, host: str, limit: int, ttl: timedelta) -> tuple[str, int]:
        keys, owner = [f"{host} {number}" for number in range(limit)], f"{os.getpid()} {pid_scope()}".encode()
        while True:
            self._freed.clear()
            taken = await self._queue.notes(SLOTS, keys)
            for key in keys:
                held = taken.get(key)
                if held and not _is_left(held):
                    continue
                stamp = held.stamp if held else None
                if note := await self._queue.swap_note(SLOTS, key, owner, stamp=stamp, ttl=ttl):
                    return key, note.stamp
            await wait_for_event(self._freed, POLL_INTERVAL_SECONDS)

    def _lock_of(self, host: str) -> asyncio.Lock:
        if len(self._locks) >= MAX_HOSTS:
            self._locks = {name: lock for name, lock in self._locks.items() if lock.locked()}
        return self._locks.setdefault(host, asyncio.Lock())


def _is_left(slot: Note) -> bool:
    """Return whether the process that holds a slot was on this machine and is gone."""
    pid, _, scope = slot.value.decode().partition(" ")
    return scope == pid_scope() and not is_process_running(int(pid))


def _not_now(host: str, error: QueueError) -> NotNow:
    # Not an error of the step, which would be charged an attempt or buried for it.
    return NotNow(f"no turn at {host} for page.request: {error}", OUTAGE_WAIT)
