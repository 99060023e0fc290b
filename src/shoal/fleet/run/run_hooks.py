"""Calls the hooks of a run in the process that hosts its workers: before the first of them, and at the end.

Several processes may host workers of one run. A record in the queue says whether the hooks were called; it is
written with a compare-and-swap, so that one process calls them and the others see it.
"""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import msgspec
from msgspec.structs import replace

from shoal.core.errors import HookFailed, QueueError
from shoal.core.model import MINUTE, SECOND, Note
from shoal.core.procfs import pid_scope
from shoal.core.redact import Redact, redacted
from shoal.core.tasks import in_daemon_thread, wait_for_event
from shoal.fleet.dead_workers import new_worker_id
from shoal.fleet.status.hook_records import FINISH, START, HookRecord, HookState, read_record, topic_of
from shoal.fleet.status.progress import snapshot_of
from shoal.fleet.status.seeding import interrupted_sources
from shoal.queue.contract import Queue
from shoal.scrape.hooks import Hook, HookedRun
from shoal.scrape.scraper import Scraper
from shoal.worker.background import failure_of
from shoal.worker.hook_calls import START_TIMEOUT, call_all, open_resources

CALL_TIMEOUT = 10 * MINUTE  # of a hook without a `timeout` of its own
WRITE_TIMEOUT = 15 * SECOND  # for the record of how they ended
POLL_INTERVAL_SECONDS = 0.5


class RunHooks:
    """Calls the `on_run_start` and `on_run_finish` hooks of one run, unless another process does."""

    def __init__(
        self,
        queue: Queue,
        run_id: str,
        scraper: Scraper,
        say: Callable[[str], None] = lambda text: None,
        redact: Redact = redacted,
    ) -> None:
        """Call hooks; `say` is called, in any thread, with what the user should know."""
        self._queue, self._run_id, self._scraper = queue, run_id, scraper
        self._say, self._redact = say, redact
        self._process = new_worker_id()
        self._stopped = asyncio.Event()
        self._call: asyncio.Task[None] | None = None

    def stop(self, *, is_urgent: bool) -> None:
        """Begin no more calls; cancel the hook that is running if it is urgent."""
        self._stopped.set()
        if is_urgent and self._call:
            self._call.cancel()

    async def start(self) -> None:
        """Return when the hooks for the start have been called, here or elsewhere; raises HookFailed."""
        hooks = self._scraper.hooks
        if hooks.run_finish:
            await self._reopen()
        while hooks.run_start and not self._stopped.is_set():
            if await self._call_unless_called(START, hooks.run_start):
                return
            # No worker may start before the process that calls them is done.
            await wait_for_event(self._stopped, POLL_INTERVAL_SECONDS)

    async def finish(self) -> None:
        """Call the hooks for the end if the run has ended, unless another process has or does.

        The run has ended whatever they do, so a failure is reported and recorded, but not raised.
        """
        hooks = self._scraper.hooks.run_finish
        try:
            if hooks and await self._wait_for_end():
                await self._call_unless_called(FINISH, hooks)
        except HookFailed as error:
            self._say(self._redact(str(error)))
        except QueueError as error:
            self._say(f"The hooks {FINISH} were not called: {error} Resume the run to call them.")

    async def _reopen(self) -> None:
        """Have the hooks for the end called again, if the run has got tasks since they were called."""
        note = await self._read(FINISH)
        record = read_record(note) if note else None
        if note and record and record.state is HookState.DONE:
            run, stats = await self._queue.run(self._run_id), await self._queue.stats(self._run_id)
            if stats.remaining and not run.state.has_ended:
                await self._swap(FINISH, record.ended(HookState.OPEN), note.stamp)

    async def _wait_for_end(self) -> bool:
        """Wait for the last leases of other processes; False if the run goes on or this one is stopped."""
        while not self._stopped.is_set():
            stats = await self._queue.stats(self._run_id)
            if not stats.leased:
                # One without tasks was refused its start; one whose page limit was raised goes on.
                run = await self._queue.run(self._run_id)
                is_over = bool(stats.tasks) and (run.state.has_ended or not stats.remaining)
                return is_over and await interrupted_sources(self._queue, self._run_id) is None
            await wait_for_event(self._stopped, POLL_INTERVAL_SECONDS)
        return False

    async def _call_unless_called(self, kind: str, hooks: Sequence[Hook]) -> bool:
        """Return whether the hooks have been called; False if another process calls them now."""
        note = await self._read(kind)
        before = read_record(note) if note else None
        if before and before.state is HookState.DONE:
            return True
        if before and before.is_running:
            return False
        limits = [hook.limit or CALL_TIMEOUT for hook in hooks]
        record = HookRecord(
            state=HookState.RUNNING,
            token=before.token + 1 if before else 1,
            process=self._process,
            pid_scope=pid_scope(),
            limit=sum(limits, START_TIMEOUT + WRITE_TIMEOUT),
            hook=", ".join(map(str, hooks)),
        )
        note = await self._swap(kind, record, note.stamp if note else None)
        if note is None:
            return False  # another process was faster
        await self._call_hooks(kind, hooks, record, note)
        return True

    async def _call_hooks(self, kind: str, hooks: Sequence[Hook], record: HookRecord, note: Note) -> None:
        """Call the hooks, and record how they ended; raises HookFailed."""
        call = self._call = asyncio.create_task(self._run(hooks, record.token))
        try:
            await asyncio.wait([call])
        finally:
            if not call.done():  # this one is cancelled
                call.cancel()
                await asyncio.wait([call])
            await asyncio.shield(self._record_end(kind, record, note, call))
        if error := failure_of(call):
            raise error

    async def _record_end(
        self, kind: str, record: HookRecord, note: Note, call: "asyncio.Task[None]"
    ) -> None:
        match failure_of(call):
            case None if not call.cancelled():
                record = msgspec.structs.replace(record.ended(HookState.DONE), hook="")
            case HookFailed() as error:
                record = record.ended(HookState.FAILED, self._redact(error.reason))
                record = msgspec.structs.replace(record, hook=error.hook)
            case _:
                record = record.ended(HookState.INTERRUPTED, "it was stopped before it returned")
        try:
            async with asyncio.timeout(WRITE_TIMEOUT.total_seconds()):
                # Swapped: a process that found the call too old may have begun another one.
                await self._swap(kind, record, note.stamp)
        except (QueueError, TimeoutError):
            self._say(f"How the hooks {kind} ended could not be recorded: they will be called again.")

    async def _run(self, hooks: Sequence[Hook], token: int) -> None:
        run = await self._queue.run(self._run_id)
        async with open_resources(self._scraper, self._queue, run, self._say):
            hooked = await self._describe_run(token)
            for hook in hooks:
                limit = hook.limit or CALL_TIMEOUT
                await call_all([in_thread(hook)], limit, self._say, hooked)

    async def _describe_run(self, token: int) -> HookedRun:
        run, stats = await self._queue.run(self._run_id), await self._queue.stats(self._run_id)
        snapshot = await snapshot_of(self._queue, run, stats)
        return HookedRun(
            id=self._run_id,
            scraper=run.scraper,
            token=token,
            state=snapshot.state,
            reason=snapshot.reason,
            stats=stats,
            args=self._scraper.args,
            resources=self._scraper.resources,
        )

    async def _read(self, kind: str) -> Note | None:
        return (await self._queue.notes(topic_of(self._run_id), [kind])).get(kind)

    async def _swap(self, kind: str, record: HookRecord, stamp: int | None) -> Note | None:
        value = msgspec.json.encode(record)
        return await self._queue.swap_note(topic_of(self._run_id), kind, value, stamp=stamp)


def in_thread(hook: Hook) -> Hook:
    """Return the hook as one that does not block the event loop; one with `async def` runs on the loop."""
    function = hook.function
    if inspect.iscoroutinefunction(function):
        return hook

    @wraps(function)
    async def call(*arguments: Any) -> Any:
        result = await in_daemon_thread("run hook", function, *arguments)
        return await result if inspect.isawaitable(result) else result

    return replace(hook, function=call)
