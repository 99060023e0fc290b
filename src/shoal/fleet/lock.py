"""The lock of single mode: one process at a time enqueues into a scraper's runs, and one works on them.

It is a note in the queue, so it holds on every machine and needs no run: a refused process has created none.
The places of workers in a cluster, `workers.count` of the project file over all machines, are such locks too.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from types import TracebackType
from typing import Self

import msgspec

from shoal.core.errors import DutyFailed, NoPlaceLeft, QueueError, ScraperBusy
from shoal.core.model import Note
from shoal.core.procfs import pid_scope
from shoal.fleet.dead_workers import has_ended, new_worker_id
from shoal.fleet.job import Job
from shoal.queue.contract import SharedNotes
from shoal.worker.background import failure_of

TOPIC = "single mode"
FILLING, WORKING = "filling", "working"
RENEW_INTERVAL = timedelta(seconds=3)
LOCK_TTL = timedelta(seconds=15)  # without a renewal


class _LockHolder(msgspec.Struct):
    holder: str
    run_id: str | None = None
    pid_scope: str | None = None


class ScraperLock:
    """Holds duties of a scraper for this process; `async with` may be nested, and raises ScraperBusy.

    Without duties it holds nothing and refuses no one.
    """

    def __init__(
        self,
        queue: SharedNotes,
        scraper: str,
        duties: Sequence[str] = (FILLING, WORKING),
        *,
        run_id: str | None = None,
    ) -> None:
        self._queue, self._scraper, self._run_id = queue, scraper, run_id
        self._keys = [f"{duty} {scraper}" for duty in duties]
        self._me = new_worker_id()
        self._notes: dict[str, Note] = {}
        self._entered = 0
        self._enter_lock, self._renew_lock = asyncio.Lock(), asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None
        self._on_lost: list[Callable[[str], object]] = []
        self._lost: str | None = None  # why
        self._held_at = 0.0  # when it was last renewed, by this process's clock

    async def __aenter__(self) -> Self:
        async with self._enter_lock:
            if not self._entered and self._keys:
                await self._acquire()
                self._renewal = asyncio.create_task(self._keep_renewing())
                self._renewal.add_done_callback(self._handle_renewal_failure)
            self._entered += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered -= 1
        if self._entered:
            return
        failure = None
        if self._renewal:
            # Not in the middle of a write: the store might have made it, and the lock could not be released.
            with suppress(TimeoutError):
                async with asyncio.timeout(RENEW_INTERVAL.total_seconds()), self._renew_lock:
                    self._renewal.cancel()
            self._renewal.cancel()
            await asyncio.wait([self._renewal])
            failure, self._renewal = failure_of(self._renewal), None
        await self._release()
        if failure and error is None:
            raise DutyFailed("Holding the scraper's lock", failure) from failure

    async def name_run(self, run_id: str) -> None:
        """Set the run that the error for refused processes names."""
        self._run_id = run_id
        if self._notes:
            with suppress(QueueError):
                await self._renew()

    def when_lost(self, stop: Callable[[str], object]) -> None:
        """Call `stop` with the reason when the lock is lost: another process has it, or renewing failed."""
        self._on_lost.append(stop)
        if self._lost:
            stop(self._lost)  # it was lost while seeds were enqueued, before there were workers

    async def _acquire(self) -> None:
        try:
            for key in self._keys:
                self._notes[key] = await self._take(key)
            self._held_at = asyncio.get_running_loop().time()
        except BaseException:
            await self._release()
            raise

    async def _take(self, key: str) -> Note:
        while True:
            found = (await self._queue.notes(TOPIC, [key])).get(key)
            held = msgspec.json.decode(found.value, type=_LockHolder) if found else None
            # The lock of a killed process of this machine is taken at once.
            if found and held and not has_ended(held.holder, held.pid_scope, found.age):
                raise ScraperBusy(self._scraper, held.holder, held.run_id)
            if note := await self._write(key, found.stamp if found else None):
                return note

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(RENEW_INTERVAL.total_seconds())
            with suppress(QueueError):
                if taker := await self._renew():
                    self._lose(self._taken_by(taker))
                    return

    def _taken_by(self, taker: _LockHolder) -> str:
        silent = asyncio.get_running_loop().time() - self._held_at
        run = f" for run {taker.run_id}" if taker.run_id else ""
        return (
            f"Another process has taken over scraper {self._scraper!r}: {taker.holder}{run}. "
            f"This one could not renew its lock for {silent:.0f} s."
        )

    def _handle_renewal_failure(self, task: asyncio.Task[None]) -> None:
        if error := failure_of(task):
            self._lose(f"The lock of scraper {self._scraper!r} is lost: {DutyFailed('Renewing it', error)}.")

    def _lose(self, why: str) -> None:
        self._lost = why
        for stop in self._on_lost:
            stop(why)

    async def _renew(self) -> _LockHolder | None:
        """Renew the lock; return the holder if it is another process."""
        # One at a time: of two concurrent renewals, the slower would take the other's note for a foreign one.
        async with self._renew_lock:
            for key in list(self._notes):
                if taker := await self._renew_one(key):
                    del self._notes[key]
                    return taker
            self._held_at = asyncio.get_running_loop().time()
            return None

    async def _renew_one(self, key: str) -> _LockHolder | None:
        stamp: int | None = self._notes[key].stamp
        while (renewed := await self._write(key, stamp)) is None:
            found = (await self._queue.notes(TOPIC, [key])).get(key)
            held = msgspec.json.decode(found.value, type=_LockHolder) if found else None
            if held and held.holder != self._me:
                return held
            # A lock that expired while this process slept is taken again.
            stamp = found.stamp if found else None
        self._notes[key] = renewed
        return None

    async def _release(self) -> None:
        notes, self._notes = self._notes, {}
        for key, note in notes.items():
            with suppress(QueueError):
                await self._queue.swap_note(TOPIC, key, None, stamp=note.stamp)

    async def _write(self, key: str, stamp: int | None) -> Note | None:
        value = msgspec.json.encode(_LockHolder(self._me, self._run_id, pid_scope()))
        return await self._queue.swap_note(TOPIC, key, value, stamp=stamp, ttl=LOCK_TTL)


async def take_places(stack: AsyncExitStack, queue: SharedNotes, job: Job, count: int) -> list[ScraperLock]:
    """Take a place for each worker of a job, as far as some of `count` are free; raises NoPlaceLeft.

    Each is a lock that the stack releases. Workers of other steps or partitions have places of their own:
    otherwise those of one stage could leave none to the next.
    """
    kind = " ".join(["worker", *sorted(job.steps or ()), *sorted(job.partitions or ())])
    places: list[ScraperLock] = []
    for number in range(1, count + 1):
        if len(places) == job.workers:
            break
        with suppress(ScraperBusy):
            place = ScraperLock(queue, job.scraper.name, [f"{kind} {number} of"])
            places.append(await stack.enter_async_context(place))
    if not places:
        raise NoPlaceLeft(job.scraper.name, count)
    return places
