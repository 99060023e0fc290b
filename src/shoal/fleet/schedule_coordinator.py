"""Fires schedules: records the occurrences that are due, and takes each run from its seeds to its outcome.

Any number of processes do this at once. What is due is recorded by a swap of the schedule's note, so each
occurrence is recorded once (`schedule/plan.py`). Its run is carried out by the process that holds the lock of
the scraper; when that process dies, another takes over the lock and goes on with the same run, whose id
follows from the schedule and the time.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from shoal.core.commands import shoal_command
from shoal.core.errors import (
    DutyFailed,
    InvalidInput,
    InvalidSetting,
    QueueError,
    QueueReplaced,
    QueueUnavailable,
    RunConflict,
    ScraperBusy,
    ShoalError,
    UnknownRun,
)
from shoal.core.model import Run
from shoal.core.redact import redacted
from shoal.core.run_outcome import TIME_LIMIT, RunOutcome, Verdict
from shoal.core.tasks import repeat, restarted, start_in
from shoal.fleet.app import App
from shoal.fleet.cluster_roles import (
    SILENT,
    Coordinator,
    MessageObserver,
    Role,
    RoleObserver,
    WorkerHost,
    enqueue_lock,
    job_of_role,
    place_of,
)
from shoal.fleet.job import Job
from shoal.fleet.lock import ScraperLock
from shoal.fleet.notify.notifier import Notifier
from shoal.fleet.run import lifecycle
from shoal.fleet.run.feed import InvalidSeeds
from shoal.fleet.run.judgement import judged
from shoal.fleet.run.open_run import StartOptions, open_run
from shoal.fleet.run.results import ResultWriter
from shoal.fleet.schedule.plan import (
    NEXT_WAS_DUE,
    Occurrence,
    OccurrenceState,
    ScheduleRecord,
    ended,
    started,
)
from shoal.fleet.sources.declared import declared_in, declared_seeds, within
from shoal.fleet.sources.names import read_seeds
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.progress import ProgressReader

TICK_INTERVAL = timedelta(seconds=1)
RETRY_DELAY = timedelta(seconds=30)  # after a scraper could not be loaded here


class ScheduleCoordinator:
    """Serves the schedules of a queue while `serve` runs; with `workers`, their runs are worked on here."""

    def __init__(
        self,
        app: App,
        observer: RoleObserver = SILENT,
        *,
        workers: int = 0,
        notifier: Notifier | None = None,
    ) -> None:
        self._app, self._queue, self._observer = app, app.queue, observer
        self._schedules = app.schedules
        self._workers, self._notifier = workers, notifier
        self._carried: dict[str, asyncio.Task[None]] = {}  # by run id
        self._hosts: dict[str, WorkerHost] = {}  # by scraper, as schedules name it
        self._tasks: set[asyncio.Task[None]] = set()
        self._names = dict[str, str]()  # of scrapers, as schedules name them
        self._said = dict[str, str]()
        self._stopping = asyncio.Event()
        self._stops = 0
        self._replaced: QueueReplaced | None = None

    @property
    def in_hand(self) -> int:
        """How many leases the workers hold."""
        return sum(host.in_hand for host in self._hosts.values())

    def stop(self) -> int:
        """End `serve`: workers finish running tasks; the second call releases them, the third kills."""
        self._stops += 1
        self._stopping.set()
        for host in self._hosts.values():
            host.stop()
        return self._stops

    async def serve(self) -> None:
        """Fire schedules until stopped or cancelled; other processes go on with runs that are not over.

        Raises QueueReplaced if the file of the queue is gone: no call will succeed any more.
        """
        for name in await self._schedules.declare():
            where = self._app.project.source_of(f"schedules.{name}")
            self._observer.on_message(
                f"{where} is left out: a schedule {name!r} was added to the queue. "
                f"To use that of the file, run: {shoal_command(f'schedule remove {name}')}"
            )
        await self._check_schedules()
        ticking = start_in(self._tasks, self._keep_ticking())
        try:
            await self._stopping.wait()
        finally:
            ticking.cancel()
            for task in self._carried.values():
                task.cancel()
            for task in self._tasks - {ticking, *self._carried.values()}:
                if not self._stops:  # cancelled: nobody waits for the tasks in progress
                    task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
        if self._replaced:
            raise self._replaced

    async def _check_schedules(self) -> None:
        """Say now what would be found out at night: a scraper or seeds that cannot be read."""
        for record in await self._schedules.all():
            if record.error:
                continue  # the first tick says so
            try:
                self._seeds(record, await self._load(record, **_given(record)))
            except ShoalError as error:
                self._say_once(record.name, f"Runs of schedule {record.name!r} cannot begin here: {error}")

    async def _load(self, record: ScheduleRecord, **more: Any) -> Job:
        scraper, seeds = record.schedule.scraper, read_seeds(record.schedule.seeds)
        return await asyncio.to_thread(self._job, scraper, Role.COORDINATOR, declared=seeds.addresses, **more)

    async def _keep_ticking(self) -> None:
        await restarted(
            "Firing schedules",
            lambda: repeat(self.tick, TICK_INTERVAL, at_once=True),
            self._observer.on_message,
        )

    async def tick(self) -> None:
        """Record what is due, and go on with the runs that are."""
        try:
            for record in await self._schedules.all():
                try:
                    await self._fire(record)
                except (RunConflict, InvalidSetting) as error:
                    self._say_once(record.name, f"Schedule {record.name!r} is left out: {error}")
        except QueueReplaced as error:
            self._replaced = error
            self._stopping.set()

    async def _fire(self, record: ScheduleRecord) -> None:
        if record.error:
            self._say_once(record.name, f"Schedule {record.name!r} is left out: {record.error}")
            return
        record = await self._schedules.advance(record)
        for one in record.open:
            if one.state is OccurrenceState.CANCELLING:
                with suppress(UnknownRun):
                    await lifecycle.cancel(self._queue, one.run_id)
            elif one.fired_at and record.schedule.is_over_time(one.fired_at, await self._queue.now()):
                with suppress(UnknownRun):
                    limit = record.schedule.time_limit
                    await self._queue.finish(one.run_id, f"{TIME_LIMIT} of {limit} was reached")
        if record.open:
            await self._go_on(record, record.open[0])

    async def _go_on(self, record: ScheduleRecord, one: Occurrence) -> None:
        """Begin to carry out an occurrence, and to work on its run, unless this is done here already."""
        scraper = str(record.table["scraper"])
        if self._workers and scraper not in self._hosts:
            await self._host(scraper)
        if one.run_id not in self._carried:
            task = start_in(self._tasks, self._carry(record, one))
            self._carried[one.run_id] = task
            task.add_done_callback(lambda _: self._carried.pop(one.run_id))

    async def _host(self, scraper: str) -> None:
        try:
            job = await asyncio.to_thread(self._job, scraper, Role.WORKER)
        except ShoalError as error:
            self._say_once(scraper, f"Workers cannot run {scraper!r} here: {error}")
            return
        job = replace(job, workers=self._workers)
        say = self._observer.on_message
        host = self._hosts[scraper] = WorkerHost(self._queue, [job], MessageObserver(say))
        start_in(self._tasks, restarted(f"Working on runs of {scraper!r}", host.serve, say))

    def _job(self, scraper: str, role: Role = Role.COORDINATOR, **more: Any) -> Job:
        entry = self._app.project.scrapers.get(scraper)
        if entry:
            return job_of_role(self._app, entry, role, **more)
        return self._app.job(scraper, joins=True, **more)

    async def _carry(self, record: ScheduleRecord, one: Occurrence) -> None:
        """Take the run of an occurrence to its end, unless another process does."""
        name, scraper = record.name, record.schedule.scraper
        carrying = asyncio.current_task()
        assert carrying is not None
        try:
            if scraper not in self._names:
                self._names[scraper] = (await asyncio.to_thread(self._job, scraper)).scraper.name
            async with enqueue_lock(self._queue, self._names[scraper], one.run_id) as lock:
                lock.when_lost(lambda why: carrying.cancel())
                await self._carry_locked(record, one, lock)
        except ScraperBusy as busy:
            if busy.run_id is None or record.find(busy.run_id) is None:
                self._say_once(name, f"Schedule {name!r} waits: {busy}")
        except QueueError as error:
            self._say_once(name, f"Schedule {name!r} waits: {error}")
        except Exception as error:
            # Another coordinator may have the file of the scraper, or another version of it.
            reason = error if isinstance(error, ShoalError) else DutyFailed(f"Run {one.run_id}", error)
            self._say_once(name, f"Schedule {name!r} cannot go on here: {reason}")
            await asyncio.sleep(RETRY_DELAY.total_seconds())
        else:
            self._said.pop(name, None)

    async def _carry_locked(self, record: ScheduleRecord, one: Occurrence, lock: ScraperLock) -> None:
        now = await self._queue.now()
        given: dict[str, Any] = {}
        if await lifecycle.is_new(self._queue, one.run_id):  # others keep what they were made with
            given = _given(record)
        job = await self._load(record, **given)
        record = await self._schedules.update(
            record.name, started(one.run_id, OccurrenceState.STARTING, now), create=False
        )
        found = record.find(one.run_id)
        if found is None or not found.state.is_open:
            return
        try:
            verdict = await self._work(record, found, job, lock)
        except QueueUnavailable:
            raise
        except (ShoalError, OSError) as error:
            verdict = Verdict(outcome=RunOutcome.FAILED, reason=redacted(str(error)))
        if verdict:
            await self._end(record, one, verdict)

    async def _work(
        self, record: ScheduleRecord, one: Occurrence, job: Job, lock: ScraperLock
    ) -> Verdict | None:
        """Return the outcome of a run; None if its occurrence was taken back."""
        project = self._app.project
        pattern = record.schedule.out or project.cluster.storage.results
        out = place_of(pattern and within(project.folder, pattern), job.name, one.run_id)
        # After the state of the occurrence: a process that has lost the lock may have made the run just now.
        run, is_cancelled = await self._existing(one.run_id), one.state is OccurrenceState.CANCELLING
        if run and (is_cancelled or run.state.has_ended):  # by its process's last act, or by hand
            return await self._close(run, job, out)
        if is_cancelled:
            return Verdict(outcome=RunOutcome.CANCELLED, reason=NEXT_WAS_DUE)
        if run is None and one.state is OccurrenceState.RUNNING:
            return Verdict(outcome=RunOutcome.FAILED, reason="its run was deleted")
        invalid = InvalidSeeds(say=self._observer.on_message)
        options = StartOptions(
            run_id=one.run_id, lock=lock, routes=project.routes, invalid=invalid, keeps_empty=True
        )
        seeds = self._seeds(record, job)
        async with open_run(self._queue, job, seeds, options) as opened:
            now = await self._queue.now()
            record = await self._schedules.update(
                record.name, started(one.run_id, OccurrenceState.RUNNING, now), create=False
            )
            found = record.find(one.run_id)
            if found is None or found.state is not OccurrenceState.RUNNING:
                await lifecycle.cancel(self._queue, one.run_id)
                return None
            for notice in opened.notices:
                self._observer.on_message(f"Run {one.run_id}: {notice}")
            summary = await Coordinator(opened, self._observer, out).carry_out()
        if (await self._queue.stats(one.run_id)).tasks:
            return summary.snapshot.verdict
        await lifecycle.purge(self._queue, one.run_id)  # `again` must not find a run without pages
        invalid.check_not_all_skipped()
        if summary.enqueued.known or job.scraper.settings.again:
            return Verdict(outcome=RunOutcome.COMPLETE, reason="its sources had no task that is new or due")
        return Verdict(outcome=RunOutcome.EMPTY, reason="its seeds gave no task")

    def _seeds(self, record: ScheduleRecord, job: Job) -> Seeds:
        project, table = self._app.project, record.schedule.seeds
        if table:
            return declared_in(project, read_seeds(table), f"schedule {record.name}")
        seeds = declared_seeds(project, job)
        if not seeds and job.scraper.settings.again is None:
            raise InvalidInput(
                f"Scraper {job.name!r} has no seeds. Add some to the schedule: "
                f'[schedules.{record.name}.seeds] and url = ["https://…"]'
            )
        return seeds

    async def _existing(self, run_id: str) -> Run | None:
        try:
            return await self._queue.run(run_id)
        except UnknownRun:
            return None

    async def _close(self, run: Run, job: Job, out: str | None) -> Verdict | None:
        await judged(self._queue, run.id, job.scraper, self._observer.on_message)
        snapshot = await ProgressReader(self._queue, run.id).read(last=True)
        async with ResultWriter(self._queue, run.id, out) as writer:
            await writer.finish(snapshot.stats.items)
        return snapshot.verdict

    async def _end(self, record: ScheduleRecord, one: Occurrence, verdict: Verdict) -> None:
        if self._notifier:  # first: if this process dies in between, the next one does both
            facts = {"scraper": str(record.table["scraper"]), "schedule": record.name}
            await self._notifier.run_ended(one.run_id, verdict, **facts)
        now = await self._queue.now()
        change = ended(one.run_id, verdict, now)
        await self._schedules.update(record.name, change, create=False)
        said = [f": {verdict.reason}"] if verdict.reason else []
        said += [f". Warning: {text}" for text in verdict.warnings]
        self._observer.on_message(
            f"Run {one.run_id} of schedule {record.name!r} is {verdict.outcome.words}{''.join(said)}"
        )

    def _say_once(self, key: str, text: str) -> None:
        if self._said.get(key) != text:
            self._said[key] = text
            self._observer.on_message(text)


def _given(record: ScheduleRecord) -> dict[str, Any]:
    """Return what the schedule says of its new runs."""
    return {"settings": dict(record.schedule.settings), "args": dict(record.schedule.args)}
