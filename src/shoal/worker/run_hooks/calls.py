"""Calls the hooks of a run: one worker of the fleet at a time, and the next one if it dies.

The record in the queue is the lock. Its holder renews it, and a worker that finds it silent for HOLD_TIME, or
its process gone, takes it with the next token.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple

import msgspec

from shoal.core.errors import HookFailed, QueueError
from shoal.core.model import Note, ReportedState, Run, RunState
from shoal.core.redact import Redact, redacted
from shoal.core.tasks import restarted, wait_for_event
from shoal.queue.contract import Queue
from shoal.scrape.hooks.arguments import HookedRun
from shoal.scrape.hooks.hooks import Hook
from shoal.scrape.scraper import Scraper
from shoal.worker.background import failure_of
from shoal.worker.hook_calls import call_all
from shoal.worker.left_out import cuts_of, describe_cuts
from shoal.worker.run_hooks.record import (
    FINISH,
    HOLD_TIME,
    MAX_FAILURES,
    REST_TIME,
    SEEDING_TOPIC,
    START,
    HookNote,
    HookRecord,
    HookState,
    find_record,
    interrupted,
    new_record,
    next_record,
    topic_of,
)
from shoal.worker.run_hooks.threads import in_thread
from shoal.worker.scheduler import Stop

CALL_TIMEOUT = timedelta(minutes=10)  # of a hook without a `timeout` of its own
RENEW_INTERVAL = HOLD_TIME.total_seconds() / 5
MIN_POLL, MAX_POLL = 0.1, 2.0  # seconds until a waiting worker looks again
EXHAUSTED = (
    f"{MAX_FAILURES} calls in a row have failed: it is called again when you resume the run, "
    f"or in {REST_TIME.total_seconds() / 60:g} minutes"
)

log = logging.getLogger(__name__)


class ThisWorker(NamedTuple):
    """The worker that calls hooks, and how it tells whether another one's process has ended."""

    worker_id: str
    pid_scope: str | None
    is_running: Callable[[int], bool]
    launch: str = ""  # of all workers that were started together


class RunHookCalls:
    """Calls the hooks of a run in this worker, or waits until another worker has."""

    def __init__(
        self,
        queue: Queue,
        run: Run,
        scraper: Scraper,
        this: ThisWorker,
        report: Callable[[str], None] = log.warning,
        redact: Redact = redacted,
    ) -> None:
        """Call hooks; `report` is called, in any thread, with what the user should know."""
        self._queue, self._run_id, self._scraper = queue, run.id, scraper
        self._this, self._report, self._redact = this, report, redact
        self._stopped = asyncio.Event()
        self._call: asyncio.Task[None] | None = None
        self._is_cancelling = False
        self._before: dict[str, int] = {}  # tokens when this worker started

    def stop(self, how: Stop) -> None:
        """Wait no longer for other workers; with RELEASE, cancel the hook that runs here."""
        self._stopped.set()
        if how is Stop.RELEASE and self._call:
            self._is_cancelling = True
            self._call.cancel()

    async def start(self) -> None:
        """Return when the hooks for the start have been called, or at `stop`; raises HookFailed."""
        if self._scraper.hooks.of_run:
            await self._retry(self._start)

    async def finish(self) -> None:
        """Return when the hooks for the end of the run have been called, or at `stop`.

        The run has ended whatever they do, so a failure is reported and recorded, but not raised.
        """
        if self._scraper.hooks.run_finish:
            await self._retry(self._finish)

    async def _start(self) -> None:
        hooks = self._scraper.hooks
        for kind in (START, FINISH):
            found = await find_record(self._queue, self._run_id, kind)
            self._before.setdefault(kind, found.record.token if found else 0)
        if hooks.run_finish:
            await self._reopen()
        if hooks.run_start:
            await self._ensure(START, hooks.run_start)

    async def _finish(self) -> None:
        if not await self._has_ended():
            return
        try:
            await self._ensure(FINISH, self._scraper.hooks.run_finish)
        except HookFailed as error:
            self._report(self._redact(str(error)))

    async def _retry(self, call: Callable[[], Awaitable[None]]) -> None:
        """Call a function until it succeeds or `stop`; while the queue is away, no task can be claimed."""
        while not self._stopped.is_set():
            try:
                await call()
            except QueueError as error:
                log.warning("Cannot call the hooks of the run: %s. Trying again.", error)
                await self._wait(MAX_POLL)
            else:
                return

    async def _reopen(self) -> None:
        """Have the hooks for the end called again, if the run has got tasks since they were called."""
        while found := await self._wait_while_held(FINISH):
            if found.record.state is not HookState.DONE or not await self._has_work():
                return
            record = msgspec.structs.replace(found.record, state=HookState.OPEN, failures=0)
            if await self._write(FINISH, record, found.note.stamp):
                return

    async def _has_work(self) -> bool:
        run = await self._queue.run(self._run_id)
        return not run.state.has_ended and (await self._queue.stats(self._run_id)).remaining > 0

    async def _has_ended(self) -> bool:
        """Wait for the last leases of other workers; False if the run goes on or this worker is stopped."""
        while not self._stopped.is_set():
            if not (await self._queue.stats(self._run_id)).leased:
                return not await self._queue.notes(SEEDING_TOPIC, [self._run_id])
            await self._wait(MAX_POLL)
        return False

    async def _ensure(self, kind: str, hooks: Sequence[Hook]) -> None:
        while not self._stopped.is_set():
            found = await self._wait_while_held(kind)
            record = found.record if found else None
            if self._stopped.is_set() or (record and record.state is HookState.DONE):
                return
            if found and found.is_exhausted:
                raise HookFailed(
                    found.record.hook, f"{found.record.error} (in worker {found.record.worker}). {EXHAUSTED}"
                )
            if record and record.state is HookState.FAILED and self._concerns_me(kind, record):
                if kind == FINISH and self._is_of_my_launch(record):
                    return  # the worker that called the hook has reported it where this one would
                raise HookFailed(record.hook, f"{record.error} (in worker {record.worker})")
            this = self._this
            mine = new_record(this.worker_id, this.pid_scope, this.launch, str(hooks[0]))
            taken = next_record(record, mine)
            note = await self._write(kind, taken, found.note.stamp if found else None)
            if note and taken.is_running:
                await self._call_held(kind, hooks, taken, note)
                return

    def _concerns_me(self, kind: str, failed: HookRecord) -> bool:
        """Return whether a failure ends this worker too; after an earlier one it tries again."""
        return self._is_of_my_launch(failed) or failed.token > self._before[kind]

    def _is_of_my_launch(self, record: HookRecord) -> bool:
        return bool(record.launch) and record.launch == self._this.launch

    async def _wait_while_held(self, kind: str) -> HookNote | None:
        """Return the record once no other worker calls these hooks, or at `stop`; None if there is none."""
        wait = MIN_POLL
        while True:
            found = await find_record(self._queue, self._run_id, kind)
            if found is None or not self._is_held(found) or self._stopped.is_set():
                return found
            await self._wait(wait)
            wait = min(2 * wait, MAX_POLL)

    def _is_held(self, found: HookNote) -> bool:
        record = found.record
        if record.state is not HookState.RUNNING or record.worker == self._this.worker_id:
            return False
        is_here = record.pid_scope is not None and record.pid_scope == self._this.pid_scope
        has_died = is_here and not self._this.is_running(record.pid)
        return not has_died and found.note.age < HOLD_TIME

    async def _call_held(self, kind: str, hooks: Sequence[Hook], record: HookRecord, note: Note) -> None:
        """Call the hooks while the record is held, and write how they ended; raises HookFailed."""
        held = _HeldRecord(record, note, partial(self._write, kind))
        call = self._call = asyncio.create_task(self._call_hooks(hooks, held))
        renewing = asyncio.create_task(self._keep(held))
        try:
            await asyncio.wait([call, renewing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._is_cancelling = self._is_cancelling or not call.done()
            for task in (call, renewing):
                task.cancel()
            await asyncio.wait([call, renewing])
            await self._write_end(kind, held, call)
        if held.is_lost:
            self._report(
                f"Another worker has taken over the hooks {kind}: this one could not renew its lock for "
                f"{HOLD_TIME.total_seconds():g} s. Token {record.token} is out of date."
            )
        elif error := failure_of(call):
            raise error

    async def _write_end(self, kind: str, held: "_HeldRecord", call: asyncio.Task[None]) -> None:
        if held.is_lost:
            return
        error, record = failure_of(call), held.record
        match error:
            case HookFailed():
                reason = self._redact(error.reason)
                failures = record.failures + 1
                record = msgspec.structs.replace(
                    record, state=HookState.FAILED, hook=error.hook, error=reason, failures=failures
                )
            case None if not call.cancelled():
                record = msgspec.structs.replace(record, state=HookState.DONE, hook="", failures=0)
            case _:
                record = interrupted(record, "it was stopped before it returned")

        async def write() -> None:
            await held.write(record)

        try:
            async with asyncio.timeout(HOLD_TIME.total_seconds()):
                await restarted(f"Recording the hooks {kind}", write, self._report)
        except TimeoutError:
            self._report(f"How the hooks {kind} ended could not be recorded: they will be called again.")

    async def _keep(self, held: "_HeldRecord") -> None:
        """Renew the record until it is lost."""
        loop = asyncio.get_running_loop()
        renewed_at = loop.time()
        while not held.is_lost:
            await asyncio.sleep(RENEW_INTERVAL)
            try:
                await held.write()
            except QueueError:
                held.is_lost = loop.time() - renewed_at >= HOLD_TIME.total_seconds()
            else:
                renewed_at = loop.time()

    async def _call_hooks(self, hooks: Sequence[Hook], held: "_HeldRecord") -> None:
        run = await self._describe_run(held.record.token)
        for hook in hooks:
            if str(hook) != held.record.hook:
                # So that it can be named if it ends this process.
                await held.write(msgspec.structs.replace(held.record, hook=str(hook)))
            limit = hook.limit or CALL_TIMEOUT
            await call_all([in_thread(hook)], limit, self._report, lambda: self._is_cancelling, run)

    async def _describe_run(self, token: int) -> HookedRun:
        run, stats = await self._queue.run(self._run_id), await self._queue.stats(self._run_id)
        state, reason = ReportedState(run.state), run.reason
        if run.state is RunState.RUNNING and stats.tasks and not stats.remaining:
            cuts = await cuts_of(self._queue, self._run_id)
            state = ReportedState.PARTIAL if cuts else ReportedState.FINISHED
            reason = describe_cuts(cuts) if cuts else ""
        scraper = self._scraper
        return HookedRun(
            id=run.id,
            scraper=run.scraper,
            token=token,
            state=state,
            reason=reason,
            stats=stats,
            args=scraper.args,
            resources=scraper.resources,
        )

    def _write(self, kind: str, record: HookRecord, stamp: int | None) -> Awaitable[Note | None]:
        topic, value = topic_of(self._run_id), msgspec.json.encode(record)
        return self._queue.swap_note(topic, kind, value, stamp=stamp)

    async def _wait(self, seconds: float) -> None:
        await wait_for_event(self._stopped, seconds * random.uniform(0.8, 1.2))


class _HeldRecord:
    """The record that this worker holds, as it was last written."""

    def __init__(
        self, record: HookRecord, note: Note, swap: Callable[[HookRecord, int], Awaitable[Note | None]]
    ) -> None:
        self.record, self.is_lost = record, False
        self._note, self._swap = note, swap
        self._lock = asyncio.Lock()  # the call and the renewal both write

    async def write(self, record: HookRecord | None = None) -> None:
        """Write the record, or as it is to renew it; another worker may have taken it, then it is lost."""
        # The writer may be cancelled: a write whose result nobody reads would look like another worker's.
        await asyncio.shield(self._write(record))

    async def _write(self, record: HookRecord | None) -> None:
        async with self._lock:
            new = record or self.record
            note = await self._swap(new, self._note.stamp)
            if note is None:
                self.is_lost = True
            else:
                self.record, self._note = new, note
