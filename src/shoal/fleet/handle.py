"""A handle to a run for programs: inspect it, control it, add tasks, and wait for results."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from shoal.core.errors import InvalidInput, InvalidTask, TaskDied, TaskExpired, UnknownTask
from shoal.core.model import (
    ZERO,
    DeadFilter,
    DeadLetter,
    HostStatus,
    Run,
    Stats,
    StoredItem,
    StoredReject,
    Task,
    TaskState,
    WorkerStatus,
)
from shoal.core.text import shorten
from shoal.core.values import read_duration
from shoal.discover.routing import Routes
from shoal.export.follow import Report, export
from shoal.export.open import Existing, open_writer
from shoal.fetch.tor.sync import order_renewal
from shoal.fleet.command_hints import worker_command
from shoal.fleet.job import Job
from shoal.fleet.quality.records import RunProfile
from shoal.fleet.run import lifecycle
from shoal.fleet.run.enqueue import fill
from shoal.fleet.run.feed import OnInvalid
from shoal.fleet.run.judgement import compare_runs, profile_of
from shoal.fleet.run.letters import EditReport, check_step, edit_letters, read_change
from shoal.fleet.run.open_run import RunEnqueueReport
from shoal.fleet.run.retention import purge_run
from shoal.fleet.run.settings import SettingRow, change_settings, list_settings
from shoal.fleet.sources.names import read_sources
from shoal.fleet.sources.recrawl import Comparison, compared
from shoal.fleet.sources.revisits import SHOWN, forecast
from shoal.fleet.sources.seeds import Stream
from shoal.fleet.status.at_work import has_lost_counts
from shoal.fleet.status.changes import ListedChange, list_changes, read_change_kind
from shoal.fleet.status.find import find_letter, whole_ids
from shoal.fleet.status.findings import RunFindings, read_findings, sample_of
from shoal.fleet.status.partitions import PartitionStatus, partitions
from shoal.fleet.status.progress import ProgressReader, Snapshot
from shoal.fleet.status.proxies import ProxyStatus, proxies
from shoal.fleet.status.quality import ComparisonReport, TrendRow, accept, trend_of
from shoal.fleet.status.records import Record, records
from shoal.fleet.status.rows.tasks import RecrawlPlanReport
from shoal.fleet.status.stale import OLD, StaleHolder, release, stale_holders
from shoal.fleet.status.tokens import TokenStatus, tokens
from shoal.fleet.status.tor import TorStatus, tors
from shoal.queue.contract import Queue, QueueReports
from shoal.worker.counters import FileCounts, MissingPages
from shoal.worker.failures.pages import FailedPage, read_failed_page
from shoal.worker.left_out import SkippedLinks, read_left_out
from shoal.worker.recrawl import PageChange

CHUNK = 500  # ids in one query
ENDED = {TaskState.COMPLETED, TaskState.EXPIRED, TaskState.DROPPED}
MAX_LISTING_SHARE = 0.1  # of the time spent on listing tasks
NO_WORKER = "no worker works on the run; start some with `app.work`, and wait with the run that it returns"


class TaskWaiter:
    """Tracks which of some tasks have ended.

    Items and dead letters reveal most of them. A task without items is found in the list of all tasks,
    or, where the store does not list those, when the run has finished.
    """

    def __init__(self, queue: QueueReports, run_id: str, ids: Iterable[str | None]) -> None:
        """Track tasks by their ids; None is one that was refused."""
        self._queue, self._run_id = queue, run_id
        self._left = {one for one in ids if one is not None}
        self.items: dict[str, list[Any]] = {}
        self.errors: dict[str, TaskDied | TaskExpired] = {}
        self._seen: Stats | None = None
        self._last = 0
        self._next_listing = 0.0

    def __repr__(self) -> str:
        return f"<{len(self.items)} completed, {len(self.errors)} failed, {len(self._left)} waiting>"

    async def check(self) -> None:
        """Raise UnknownTask if one of them was never enqueued in the run: it would never have a result."""
        known: set[str] = set()
        for some in _chunks(list(self._left)):
            known |= await self._queue.entered(self._run_id, some)
        if unknown := sorted(self._left - known):
            raise UnknownTask(self._run_id, unknown)

    @property
    def is_over(self) -> bool:
        """Whether all of them have ended."""
        return not self._left

    async def update(self, snapshot: Snapshot, *, is_last: bool) -> None:
        """Record what has ended since the last update; the final one takes what is left as completed."""
        stats, before = snapshot.stats, self._seen or Stats()
        if stats.items != before.items:
            await self._read_items()
        if stats.dead != before.dead or is_last:
            await self._read_dead_letters()
        if self._left and (is_last or self._should_list(stats, before)):
            await self._read_task_list()
        if is_last and stats.remaining:
            left, self._left = self._left, set()
            why = f"the run is {snapshot.state}" if snapshot.run.state.has_ended else NO_WORKER
            self.errors |= {one: TaskExpired(self._run_id, one, "left undone", why) for one in left}
        elif is_last:
            self._end(list(self._left))
        if not self._left:
            await self._read_late_items()
        self._seen = stats

    async def _read_items(self) -> None:
        async for item in self._queue.items(self._run_id, after=self._last):
            self._last = item.id
            if item.task_id in self._left or item.task_id in self.items:
                self.items.setdefault(item.task_id, []).append(item.data)
        self._left -= self.items.keys()

    async def _read_dead_letters(self) -> None:
        for some in _chunks(list(self._left)):
            async for letter in self._queue.dead(self._run_id, ids=some):
                self.errors[letter.id] = TaskDied(
                    self._run_id, letter.id, letter.task.url, letter.error, letter.traceback
                )
        self._left -= self.errors.keys()

    def _should_list(self, stats: Stats, before: Stats) -> bool:
        ended = (stats.completed, stats.expired, stats.dropped)
        return (
            ended != (before.completed, before.expired, before.dropped)
            and time.monotonic() > self._next_listing
        )

    async def _read_task_list(self) -> None:
        began = time.monotonic()
        async for status in self._queue.tasks(self._run_id, states=ENDED):
            if status.id in self._left:
                if status.state is not TaskState.COMPLETED:
                    self.errors[status.id] = TaskExpired(self._run_id, status.id, str(status.state))
                self._end([status.id])
        now = time.monotonic()
        self._next_listing = now + (now - began) / MAX_LISTING_SHARE

    def _end(self, ids: Collection[str]) -> None:
        self._left -= set(ids)
        for one in ids:
            if one not in self.errors:
                self.items.setdefault(one, [])

    async def _read_late_items(self) -> None:
        """Read again for items that were committed after others with higher ids."""
        empty = {one for one, found in self.items.items() if not found}
        if not empty:
            return
        async for item in self._queue.items(self._run_id):
            if item.task_id in empty:
                self.items[item.task_id].append(item.data)


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), CHUNK):
        yield ids[start : start + CHUNK]


def payload_tasks(payloads: Sequence[Mapping[str, Any]], step: str | None) -> list[Task]:
    """Return a task for each payload; without a step, for the scraper's first. Raises InvalidInput."""
    for one in payloads:
        if not isinstance(one, Mapping):
            raise InvalidInput(f"A payload is a dict, got {shorten(repr(one))}; start tasks with: app.start")
    return [Task(step=step, payload=one) if step else Task(payload=one) for one in payloads]


async def gather_items(
    handle: "RunHandle", tasks: Sequence[Task], timeout: timedelta | None, *, return_exceptions: bool
) -> list[Any]:
    """Wait for the tasks of a run and return the items of each; raises as `App.gather` does."""
    ids = handle.ids
    wanted = list({one for one in ids if one})
    waiting = await handle.outcomes(wanted, timeout, strict=not return_exceptions)
    if waiting.errors and not return_exceptions:
        raise next(iter(waiting.errors.values()))
    results: dict[str, Any] = {**waiting.items, **waiting.errors}
    refused = "its payload or its step cannot be queued; see the run's report"
    return [results[one] if one else InvalidTask(task, refused) for task, one in zip(tasks, ids, strict=True)]


POLL_INTERVAL = timedelta(milliseconds=500)
NOTHING_ENQUEUED = RunEnqueueReport()


def _no_job(run: Run) -> Job:
    raise InvalidInput(
        f"The scraper of run {run.id} is not known here; get the run with: app.run({run.id!r})"
    )


@dataclass(frozen=True, slots=True)
class RunHandle:
    """A run, wherever its workers are."""

    queue: Queue
    info: Run
    report: RunEnqueueReport = NOTHING_ENQUEUED  # of the enqueue at its start
    routes: Routes = field(default_factory=Routes, repr=False)
    job_of: Callable[[Run], Job] = field(default=_no_job, repr=False)
    # Returns whether its workers here have ended; raises if they failed.
    check: Callable[[], bool] | None = field(default=None, repr=False)

    @property
    def id(self) -> str:
        """The run's id."""
        return self.info.id

    @property
    def ids(self) -> list[str | None]:
        """The ids of the lists passed at its start: see `RunEnqueueReport.ids`."""
        return self.report.ids

    @property
    def worker_command(self) -> str:
        """The command that starts a worker on this run, on any machine that has the secrets."""
        return worker_command(self.job_of(self.info), self.id)

    # Adding

    async def enqueue(
        self,
        tasks: Stream = (),
        *,
        urls: Stream = (),
        on_invalid: OnInvalid = "skip",
        **sources: Any,
    ) -> RunEnqueueReport:
        """Add tasks, URLs and other sources; duplicates are not enqueued again."""
        seeds = read_sources(urls, tasks, sources)
        job = await asyncio.to_thread(self.job_of, self.info)
        return await fill(self.queue, job, self.info, self.routes, seeds, on_invalid=on_invalid)

    # Controlling

    async def pause(self) -> Run:
        """Stop handing out its tasks until it is resumed; a finished run stays as it is."""
        return await lifecycle.pause(self.queue, self.id)

    async def resume(self) -> Run:
        """Resume it; raises RunConflict if it was cancelled, or has used its `max_pages`."""
        return await lifecycle.resume(self.queue, self.id)

    async def set(self, **settings: Any) -> Run:
        """Change settings while it runs, such as rate="2/s"; all its workers follow within two seconds.

        Raises InvalidSetting for one that cannot be changed now.
        """
        return await change_settings(self.queue, self.id, settings)

    async def settings(self) -> Sequence[SettingRow]:
        """Return its settings, and when each may be changed."""
        return await list_settings(self.queue, self.id)

    async def cancel(self) -> Run:
        """Cancel it permanently; nothing is deleted. A finished run stays as it is."""
        return await lifecycle.cancel(self.queue, self.id)

    async def accept(self, *, undo: bool = False) -> None:
        """Declare its items right: later runs are compared with it, and with no earlier one."""
        await accept(self.queue, self.info, undo=undo)

    async def purge(self) -> None:
        """Delete it with all that it stores; raises RunConflict while workers run on it."""
        await purge_run(self.queue, self.id)

    async def pause_host(self, host: str, duration: timedelta) -> None:
        """Send no requests to a host for a while, in any run; zero ends a pause."""
        await self.queue.pause_host(host.lower(), duration)

    async def slow_host(self, host: str, delay: timedelta) -> None:
        """Keep at least this delay between two requests to a host, in any run; zero removes it."""
        await self.queue.slow_host(host.lower(), delay)

    async def resume_host(self, host: str) -> None:
        """End the pause of a host, and remove its delay."""
        await self.pause_host(host, ZERO)
        await self.slow_host(host, ZERO)

    # Inspecting

    async def profile(self) -> RunProfile:
        """Return the statistics of its items: how much of each field is filled, and with what."""
        return await profile_of(self.queue, self.info)

    async def compare(self, before: "RunHandle | str") -> ComparisonReport:
        """Return its fields beside those of an earlier run, and what has changed."""
        earlier = before.id if isinstance(before, RunHandle) else before
        return await compare_runs(self.queue, earlier, self.info)

    async def trend(self) -> Sequence[TrendRow]:
        """Return the last runs of its scraper with their outcomes, the oldest first."""
        return await trend_of(self.queue, self.info.scraper)

    async def stats(self) -> Stats:
        """Return the counts: total, by step and by partition."""
        return await self.queue.stats(self.id)

    async def watch(self, every: timedelta = POLL_INTERVAL) -> AsyncIterator[Snapshot]:
        """Yield a snapshot of the run periodically, the last one when it has ended.

        If its workers were started with this handle, also when these have ended and no others work on it:
        then the tasks left may never be done.
        """
        progress = ProgressReader(self.queue, self.id)
        while True:
            are_over = self.check is not None and self.check()
            snapshot = await progress.read()
            yield snapshot
            if snapshot.is_over or (are_over and not snapshot.at_work):
                return
            await asyncio.sleep(every.total_seconds())

    def records(
        self,
        *,
        step: str | None = None,
        states: Collection[TaskState] | None = None,
        key: str | None = None,
    ) -> AsyncIterator[Record]:
        """Yield each record with its state in every step; filter by step, state or key."""
        return records(self.queue, self.id, step=step, states=states, key=key)

    async def workers(self) -> Sequence[WorkerStatus]:
        """Return the workers that have ever sent a heartbeat."""
        return await self.queue.workers(self.id)

    def hosts(self) -> AsyncIterator[HostStatus]:
        """Yield the hosts with their rate limits, pauses and counts."""
        return self.queue.hosts(self.id)

    async def stale(self, older: timedelta = OLD) -> list[StaleHolder]:
        """Return the workers that hold tasks and are gone, or have held them for very long."""
        return await stale_holders(self.queue, self.id, older=older)

    async def release(self, holders: Collection[StaleHolder]) -> int:
        """Release the leases of stale workers, and return how many."""
        return await release(self.queue, holders)

    async def tokens(self) -> list[TokenStatus]:
        """Return the API tokens that it used recently, with the quota left of each."""
        return await tokens(self.queue, self.id)

    async def not_followed(self) -> dict[str, SkippedLinks]:
        """Return the links not followed so far, by reason: count, example, option that follows them.

        With `lost_counts` they are lower bounds; so are `missing` and `files`.
        """
        return (await read_left_out(self.queue, self.id)).links

    async def missing(self) -> MissingPages:
        """Return the pages that links led to and that do not exist, so far: the count and examples."""
        return (await read_left_out(self.queue, self.id)).missing

    async def files(self) -> FileCounts:
        """Return the files that were downloaded so far: stored, unchanged, and refused by reason."""
        return (await read_left_out(self.queue, self.id)).files

    async def lost_counts(self) -> bool:
        """Return whether a worker was killed before it wrote its last counts of what was left out."""
        return await has_lost_counts(self.queue, self.id)

    async def proxies(self) -> list[ProxyStatus]:
        """Return the proxies by name: pages, failures, and which are benched."""
        return await proxies(self.queue, self.id)

    async def tor(self) -> list[TorStatus]:
        """Return the Tor process of each worker at work: whether it is up, and what it says."""
        return await tors(self.queue, self.id)

    async def renew_tor(self) -> None:
        """Make all its workers use new circuits, within five seconds."""
        await order_renewal(self.queue, self.id)

    async def partitions(self) -> list[PartitionStatus]:
        """Return the partitions by name: the tasks left and the owners by the plan."""
        return await partitions(self.queue, self.id)

    # Dead letters

    async def dead(self, where: DeadFilter = DeadFilter()) -> list[DeadLetter]:
        """Return the dead letters that match."""
        return [letter async for letter in self.queue.dead(self.id, where)]

    async def letter(self, letter_id: str) -> DeadLetter:
        """Return one dead letter by its id or the end of it, as everywhere below; raises UnknownLetter."""
        return await find_letter(self.queue, self.id, letter_id)

    async def failed_page(self, letter_id: str) -> FailedPage | None:
        """Return the page that a dead letter failed on; None if it was not kept, or has expired."""
        (letter_id,) = await whole_ids(self.queue, self.id, [letter_id])
        return await read_failed_page(self.queue, self.id, letter_id)

    async def replay(
        self,
        ids: Sequence[str] | None = None,
        where: DeadFilter = DeadFilter(),
        *,
        delay: timedelta | str | float = ZERO,
    ) -> int:
        """Put dead letters back to pending, all of them by default, and return how many.

        With a delay, such as "10m", they are tried when it is over.
        """
        wait = read_duration("delay", delay)
        return await self.queue.replay(self.id, await self._whole(ids), where=where, delay=wait)

    async def drop(self, ids: Sequence[str] | None = None, where: DeadFilter = DeadFilter()) -> int:
        """Drop dead letters permanently, all of them by default, and return how many."""
        return await self.queue.drop(self.id, await self._whole(ids), where=where)

    async def edit_dead(
        self,
        ids: Sequence[str] | None = None,
        where: DeadFilter = DeadFilter(),
        *,
        by: str = "python",
        dry_run: bool = False,
        **change: Any,
    ) -> EditReport:
        """Edit dead letters, all of them by default, and return the counts; `replay` then tries them again.

        The changes are `url`, `url_replace` (old and new text), `step`, `payload` (the whole one),
        `set_payload` (some fields), `headers` (None removes one), `method`, `body` and `priority`. `by` is
        written into the history of each letter.
        """
        wanted = read_change(change)
        await check_step(self.queue, self.info, wanted.step, self.job_of)
        return await edit_letters(self.queue, self.id, wanted, ids=ids, where=where, by=by, dry_run=dry_run)

    async def _whole(self, ids: Sequence[str] | None) -> list[str] | None:
        return None if ids is None else await whole_ids(self.queue, self.id, ids)

    # Results

    async def results(
        self, *, step: str | None = None, after: int = 0, ids: Collection[str | None] | None = None
    ) -> AsyncIterator[Any]:
        """Yield the items as they are stored, until the run or the named tasks have ended.

        Dead tasks give no items; see `dead`.
        """
        seen: set[int] = set()
        last, chosen = after, None if ids is None else set(ids)
        waiting = TaskWaiter(self.queue, self.id, chosen or ())
        await waiting.check()
        async for snapshot in self.watch():
            is_last = snapshot.is_over
            if chosen is not None:
                await waiting.update(snapshot, is_last=is_last)
                is_last = is_last or waiting.is_over
            # An item may be committed after one with a higher id: the last pass reads all of them again.
            async for item in self.queue.items(self.id, step=step, after=after if is_last else last):
                last = max(last, item.id)
                if item.id not in seen and (chosen is None or item.task_id in chosen):
                    seen.add(item.id)
                    yield item.data
            if is_last:
                return

    async def result(self, task_id: str | None, timeout: timedelta | None = None) -> list[Any]:
        """Return the items of one task when it is done; an empty list if it has none.

        Raises UnknownTask at once for an id that the run does not have, TaskDied, TaskExpired, TimeoutError.
        """
        if task_id is None:
            raise InvalidInput("This task was refused, so it has no id and no result: see run.report.refused")
        return (await self.items_of([task_id], timeout))[task_id]

    async def items_of(self, ids: Sequence[str], timeout: timedelta | None = None) -> dict[str, list[Any]]:
        """Return the items of each of these tasks when all are done; raises as soon as one fails.

        The error is a TaskDied or TaskExpired whose `results` are those of the others so far.
        """
        waiting = await self.outcomes(ids, timeout, strict=True)
        for error in waiting.errors.values():
            raise error
        return waiting.items

    async def outcomes(
        self, ids: Sequence[str | None], timeout: timedelta | None = None, *, strict: bool = False
    ) -> TaskWaiter:
        """Wait until these tasks have ended: `items` by id of the completed ones, `errors` of the others.

        None, the id of a task that was refused, is left out. A strict wait ends at the first failure.
        """
        waiting = TaskWaiter(self.queue, self.id, ids)
        async with asyncio.timeout(timeout.total_seconds() if timeout else None):
            await waiting.check()
            async for snapshot in self.watch():
                await waiting.update(snapshot, is_last=snapshot.is_over)
                if waiting.is_over or (strict and waiting.errors):
                    break
            else:
                await waiting.update(snapshot, is_last=True)
        for error in waiting.errors.values():
            error.results = waiting.items
        return waiting

    async def wait(
        self, ids: Sequence[str | None] | timedelta | None = None, timeout: timedelta | None = None
    ) -> Stats:
        """Return the counts when the run or the named tasks have ended, or the workers started with it.

        Raises TimeoutError; nothing is lost then.
        """
        if isinstance(ids, timedelta):
            ids, timeout = None, ids
        if ids is not None:
            await self.outcomes(ids, timeout)
            return await self.stats()
        async with asyncio.timeout(timeout.total_seconds() if timeout else None):
            async for snapshot in self.watch():
                stats = snapshot.stats
        return stats

    def items(self, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredItem]:
        """Yield the items stored so far, each with its page, step and time."""
        return self.queue.items(self.id, step=step, after=after)

    async def export(
        self, to: str | Path, *, step: str | None = None, existing: Existing = "refuse", **options: Any
    ) -> Report:
        """Write the items to a file or a table, as `shoal export` does; `options` are those of `open_writer`.

        Raises InvalidSetting for a target that cannot be used, and ExportFailed.
        """
        return await export(lambda: self.items(step=step), open_writer(to, existing=existing, **options))

    async def sample(self, size: int, *, step: str | None = None) -> list[StoredItem]:
        """Return some random items of those stored so far; it reads all of them."""
        return await sample_of(self.items(step=step), size)

    async def findings(self) -> RunFindings:
        """Return its first errors, the first reject and the fields that are empty in every item read."""
        return await read_findings(self.queue, self.id, await self.stats())

    def rejects(self, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredReject]:
        """Yield the items that failed validation or a filter, with the reasons."""
        return self.queue.rejects(self.id, step=step, after=after)

    async def compared(self) -> Comparison:
        """Return how many pages of the run are new, changed, unchanged, gone and not fetched so far."""
        return await compared(self.queue, self.info)

    async def recrawl_plan(self, *, limit: int = SHOWN) -> RecrawlPlanReport:
        """Return what the next run would fetch of its pages if it began now, and why; some of them listed.

        Raises InvalidSetting for a run without `revisit`.
        """
        return await forecast(self.queue, self.info, limit=limit)

    def changes(
        self, *, only: PageChange | str | None = None, after: str | None = None
    ) -> AsyncIterator[ListedChange]:
        """Yield the pages that are new, changed or gone, and of a changed page each field that differs.

        `only` is one of "new", "changed", "gone", "unchanged", "failed", "not_due" and "over_budget".
        """
        return list_changes(self.queue, self.info, only=read_change_kind(only), after=after)
