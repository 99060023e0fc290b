"""Shoal from Python: start runs, watch them, and read their results while they are stored.

A run lives in its queue, not in the program that started it: `app.run(run_id)` finds it after a restart.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

from msgspec import structs

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidInput, RunConflict, ShoalError, UnknownRun
from shoal.core.model import (
    NOTHING,
    ZERO,
    DeadFilter,
    DeadLetter,
    HostStatus,
    Run,
    Stats,
    StoredItem,
    Task,
    WorkerStatus,
)
from shoal.core.values import read_duration, read_positive_duration
from shoal.fleet.build_job import check_served, job_of_run, make_job, with_declared_hosts
from shoal.fleet.command_hints import messages_on
from shoal.fleet.handle import RunHandle, gather_items, payload_tasks
from shoal.fleet.job import Job
from shoal.fleet.ondemand.balancer import CALL_TIMEOUT, Balancers
from shoal.fleet.ondemand.dispatch import Scraped
from shoal.fleet.ondemand.standing_run import ANY_PORT, bound_standing_run, listening_job, until_listening
from shoal.fleet.partitions.membership import admit
from shoal.fleet.partitions.table import read_table
from shoal.fleet.project.file import Project
from shoal.fleet.project.scrapers import load
from shoal.fleet.run.background import LocalPools
from shoal.fleet.run.enqueue import ends_as_nothing_new
from shoal.fleet.run.feed import InvalidSeeds, OnInvalid
from shoal.fleet.run.lifecycle import discarded_if_refused, is_new
from shoal.fleet.run.open_run import StartOptions, lock_of, open_run
from shoal.fleet.run.retention import PurgeReport, RetentionRule, purge_old
from shoal.fleet.run.settings import use_settings
from shoal.fleet.scale.autoscaler import POLL_INTERVAL, Autoscaler
from shoal.fleet.scale.decide import TASKS_PER_WORKER, ScaleBounds
from shoal.fleet.scale.drivers import Driver
from shoal.fleet.scale.local import LocalWorkers
from shoal.fleet.schedule.store import Schedules
from shoal.fleet.sources.declared import declared_seeds
from shoal.fleet.sources.names import read_sources
from shoal.fleet.sources.seeds import Seeds, Stream
from shoal.fleet.status.all_runs import FromRun, all_items, all_letters
from shoal.fleet.status.at_work import has_workers
from shoal.fleet.status.cache import cache_status
from shoal.fleet.status.find import AUTO, NEWEST, find_run
from shoal.fleet.status.rows.fetchers import CacheRow
from shoal.fleet.status.tokens import TokenStatus, tokens
from shoal.fleet.telemetry.logs import LogPlan, read_log_target
from shoal.fleet.telemetry.setup import open_telemetry
from shoal.queue.contract import Queue, StoreSize
from shoal.queue.open import open_queue
from shoal.scrape.load import locate_scraper
from shoal.scrape.scraper import Scraper
from shoal.worker.partitions import HEARTBEAT

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartKeywords:
    """The keywords of `App.start` beside tasks and settings: which run it is, and who works on it how."""

    run_id: str | None = None
    resume: str | None = None
    again: str | None = None
    on_invalid: OnInvalid = "skip"
    rejects: str | None = None
    workers: int | None = None
    steps: Sequence[str] | None = None
    concurrency: int | None = None
    stagger: timedelta | str | float = ZERO
    partitions: Sequence[str] | str | None = None
    partition_table: Mapping[int, Sequence[str]] | None = None
    heartbeat: timedelta | str | float = HEARTBEAT
    logs: LogPlan | str | Path | None = None
    metrics: str | None = None
    trace: bool = False

    @classmethod
    def take(cls, keywords: dict[str, Any]) -> Self:
        """Remove these keywords from the given ones, and return them."""
        names = [each.name for each in fields(cls) if each.name in keywords]
        return cls(**{name: keywords.pop(name) for name in names})

    def job_fields(self) -> dict[str, Any]:
        """Return the arguments of `App.job` for these keywords."""
        partitions, table = self.partitions, self.partition_table
        found: dict[str, Any] = {
            "workers": self.workers,
            "stagger": read_duration("stagger", self.stagger),
            "heartbeat": read_positive_duration("heartbeat", self.heartbeat),
        }
        found["partitions"] = [partitions] if isinstance(partitions, str) else partitions
        found["homes"] = read_table(table, "partition_table") if table else None
        found["steps"] = list(self.steps) if self.steps else None
        return found | ({"concurrency": self.concurrency} if self.concurrency else {})


class App:
    """A queue and the scrapers of a project."""

    def __init__(self, queue: Queue, queue_url: str, project: Project) -> None:
        self.queue = queue
        self.queue_url, self.project = queue_url, project  # the address may contain a password
        self._stack = AsyncExitStack()
        self._balancers, self._names = Balancers(queue), dict[str, str]()
        self.local_workers = LocalPools(queue)
        self.schedules = Schedules(queue, project)

    @classmethod
    async def open(cls, queue_url: str, project: Project) -> "App":
        """Open the queue; until `close`, the commands in messages of this process select it."""
        app = cls(await open_queue(queue_url), queue_url, project)
        app._stack.enter_context(messages_on(queue_url))
        return app

    async def close(self) -> None:
        """Stop the workers started here, and close the queue."""
        await self._balancers.close()
        await self.local_workers.close()
        await self._stack.aclose()
        await self.queue.close()

    async def start(
        self,
        scraper: str | Scraper,
        *,
        urls: Stream = (),
        tasks: Stream = (),
        settings: Mapping[str, Any] | None = None,
        args: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> RunHandle:
        """Create a run, enqueue its tasks, and work on it as its mode says; `run.report` has the counts.

        `keywords` are those of `StartKeywords`, and other sources by their names in `shoal run`: see
        docs/reference/python.md. Without any source the run gets the seeds that the project or the scraper
        declares. A scraper set to single mode gets one worker here by default, others none:
        `run.worker_command` starts workers anywhere. Single mode is locked: ScraperBusy names the holder.
        """
        given = StartKeywords.take(keywords)
        seeds = read_sources(urls, tasks, keywords)
        changed = dict(settings or {}) | ({"again": given.again} if given.again else {})
        job = self.job(scraper, settings=changed, args=dict(args or {}), **given.job_fields())
        check_served(job.steps, job.scraper, option="steps")
        workers = given.workers
        if workers is None:
            workers = 1 if job.scraper.settings.mode_given and job.scraper.settings.mode == "single" else 0
        if not workers and (given.logs or given.metrics or given.trace):
            raise InvalidInput("Logs, metrics and traces need workers here; start one with: workers=1")
        logs = (
            LogPlan(folder=read_log_target(str(given.logs)))
            if isinstance(given.logs, str | Path)
            else given.logs
        )
        job = structs.replace(job, **open_telemetry(logs, given.metrics, given.trace, key="metrics"))
        if given.resume and given.run_id:
            raise InvalidInput("A run has one id: give `resume` or `run_id`")
        if not seeds and given.again in (None, AUTO):
            seeds = declared_seeds(self.project, job)
        if workers:
            await self.local_workers.wait_for_drained(job.scraper.name)
        run_id = given.run_id if given.resume in (None, NEWEST, AUTO) else given.resume
        options = StartOptions(
            run_id=run_id,
            resume=given.resume is not None,
            or_new=given.resume == AUTO,
            lock=lock_of(self.queue, job, run_id) if workers else None,
            routes=self.project.routes,
            invalid=InvalidSeeds(given.on_invalid, rejects=given.rejects),
            keeps_empty=True,
        )
        return await self._start(job, seeds, options, with_workers=bool(workers))

    async def _start(self, job: Job, seeds: Seeds, options: StartOptions, *, with_workers: bool) -> RunHandle:
        check, run = None, None
        try:
            async with open_run(self.queue, job, seeds, options) as opened:
                job, run = opened.job, opened.run
                report = await opened.enqueue()
                has_work = not (opened.is_new and await ends_as_nothing_new(self.queue, run, report))
                if with_workers and has_work:
                    async with discarded_if_refused(self.queue, run, is_new=opened.is_new, keeps_empty=True):
                        await admit(self.queue, run.id, job.sharing)
                    check = (await self.local_workers.add(job, run, lock=opened.lock)).check
        except Exception as error:
            if run and not await is_new(self.queue, run.id):  # else it was deleted, or never made
                _name_run(error, run)
            raise
        routes = self.project.routes
        return RunHandle(self.queue, run, report, routes, lambda run: job, check)

    async def work(
        self,
        run_id: str,
        *,
        workers: int = 1,
        steps: Sequence[str] | None = None,
        partitions: Sequence[str] | str | None = None,
    ) -> RunHandle:
        """Start workers here on an existing run of a project scraper, as `shoal work` does.

        They run all steps and partitions, or those named. They end when the run is drained or the app is
        closed, or earlier by `local_workers.stop(run_id)`.
        """
        handle = await self.run(run_id)
        job = await self._job_to_join(handle)
        check_served(steps, job.scraper, option="steps")
        named = [partitions] if isinstance(partitions, str) else partitions
        job = structs.replace(
            job, steps=list(steps or ()) or None, partitions=list(named) if named else job.partitions
        )
        await self.local_workers.start(handle.info, job, workers)
        return replace(handle, check=partial(self.local_workers.check, handle.id))

    async def scale(
        self,
        run_id: str,
        *,
        most: int,
        least: int = 0,
        tasks_per_worker: int = TASKS_PER_WORKER,
        every: timedelta = POLL_INTERVAL,
        driver: Driver | None = None,
    ) -> None:
        """Start and stop workers as a run can use them, until it is drained, as `shoal scale` does.

        They run here, or where `driver` starts them: it has `async def count()` and `async def set(count)`.
        """
        handle = await self.run(run_id)
        bounds = ScaleBounds(most=most, least=least, tasks_per_worker=tasks_per_worker)
        async with AsyncExitStack() as stack:
            if driver is None:
                local = LocalWorkers(self.queue, await self._job_to_join(handle), handle.info)
                driver = await stack.enter_async_context(local)
            await Autoscaler(self.queue, handle.id, driver, bounds, every=every).run(until_drained=True)

    async def _job_to_join(self, handle: RunHandle) -> Job:
        """Return the job for workers that join a run, with the settings that it was made with."""
        job = structs.replace(await asyncio.to_thread(handle.job_of, handle.info), joins=True)
        job, _ = await use_settings(self.queue, job, handle.info)
        return job

    async def run(self, run_id: str) -> RunHandle:
        """Return a handle to an existing run: its id, the start of it, or `newest`; raises UnknownRun."""
        return self._handle(await find_run(self.queue, run_id))

    async def runs(self) -> list[RunHandle]:
        """Return all runs, the newest first."""
        return [self._handle(run) for run in await self.queue.runs()]

    async def stats(self, scraper: str | Scraper, run_id: str | None = None) -> Stats:
        """Return the counts of a scraper's run, the newest by default.

        Raises UnknownRun, and RunConflict for a run of another scraper.
        """
        name = await self._name(scraper)
        if run_id is None:
            newest = next((run for run in await self.queue.runs() if run.scraper == name), None)
            if newest is None:
                raise UnknownRun(f"of {name}")
            return await self.queue.stats(newest.id)
        run = await self.queue.run(run_id)
        if run.scraper != name:
            raise RunConflict.of_another(run_id, run.scraper, name)
        return await self.queue.stats(run_id)

    async def purge(
        self,
        *,
        older: timedelta | str | None = None,
        keep: int = 0,
        scraper: str | None = None,
        unfinished: bool = False,
        dry_run: bool = False,
    ) -> PurgeReport:
        """Delete old runs, and return them with their counts.

        Those older than `older` go, except the newest `keep` of each scraper; by default only runs that have
        finished or were cancelled. `scraper` is the name under which runs are listed.
        """
        age = ZERO if older is None else read_positive_duration("older", older)
        rule = RetentionRule(older=age, keep=keep, scraper=scraper, unfinished=unfinished)
        return await purge_old(self.queue, rule, dry_run=dry_run)

    async def size(self) -> StoreSize:
        """Return the size of the queue's store, and what was measured."""
        return await self.queue.size()

    async def workers(self) -> Sequence[WorkerStatus]:
        """Return the workers of all runs that have ever sent a heartbeat."""
        return await self.queue.workers()

    async def hosts(self) -> list[HostStatus]:
        """Return the hosts of all runs with their rate limits, pauses and counts."""
        return [host async for host in self.queue.hosts()]

    def dead(
        self, where: DeadFilter = DeadFilter(), *, after: str | None = None
    ) -> AsyncIterator[FromRun[DeadLetter]]:
        """Yield the dead letters of all runs, each as `value` with its `run`; the newest run first."""
        return all_letters(self.queue, where, after=after)

    def items(
        self, *, step: str | None = None, after: str | None = None
    ) -> AsyncIterator[FromRun[StoredItem]]:
        """Yield the items of all runs, each as `value` with its `run`; the newest run first."""
        return all_items(self.queue, step=step, after=after)

    async def pause_host(self, host: str, duration: timedelta) -> None:
        """Send no requests to a host for a while, in any run; zero ends a pause."""
        await self.queue.pause_host(host.lower(), duration)

    async def slow_host(self, host: str, delay: timedelta) -> None:
        """Keep at least this delay between two requests to a host, in any run; zero removes it."""
        await self.queue.slow_host(host.lower(), delay)

    async def forget(self, scraper: str | Scraper) -> int:
        """Forget what runs of a scraper with `dedup` have queued, and return how many tasks were known.

        The next run queues them again; earlier runs keep theirs.
        """
        return await self.queue.forget(await self._name(scraper))

    async def tokens(self) -> list[TokenStatus]:
        """Return the API tokens that the fleet knows, with the quota left of each."""
        return await tokens(self.queue)

    async def cache(self, run_id: str | None = None, *, folder: str | Path | None = None) -> CacheRow:
        """Return what the response cache of the queue, or one in a folder, holds, and how runs use it."""
        return await cache_status(self.queue, run_id, folder=folder)

    async def gather(
        self,
        scraper: str | Scraper,
        payloads: Sequence[Mapping[str, Any]],
        *,
        step: str | None = None,
        run_id: str | None = None,
        workers: int | None = None,
        timeout: timedelta | None = None,
        return_exceptions: bool = False,
    ) -> list[Any]:
        """Run a step on every payload, the first step by default; return the items of each, in order.

        A payload is identified by its content: given twice, it is processed once and returned twice. With a
        run id you can call it again after a restart, in any order: completed payloads are not repeated.
        Workers are started here only with `workers`; otherwise those of other processes do the work.

        Raises TaskDied or TaskExpired as soon as one has failed, with the other results so far in `results`;
        InvalidTask for an invalid payload, and TimeoutError. With `return_exceptions` the list contains the
        error of each failed payload instead.
        """
        tasks = payload_tasks(payloads, step)
        handle = await self.start(
            scraper,
            tasks=tasks,
            run_id=run_id,
            workers=workers,
            on_invalid=(lambda refusal: None) if return_exceptions else "raise",
            settings={"dedup": None},  # tasks that earlier runs have queued have no result in this one
        )
        is_served = handle.check or await has_workers(self.queue, handle.id)
        if not is_served and (await handle.stats()).remaining:
            how = "pass workers=1 to start one here, or run"
            log.warning("No worker works on run %s yet; %s: %s", handle.id, how, handle.worker_command)
        return await gather_items(handle, tasks, timeout, return_exceptions=return_exceptions)

    async def listen(
        self,
        scraper: str | Scraper,
        *,
        workers: int = 1,
        at: str = ANY_PORT,
        announce: str | None = None,
        settings: Mapping[str, Any] | None = None,
        args: Mapping[str, Any] | None = None,
    ) -> RunHandle:
        """Start workers here that scrape on demand while the app is open; return their run."""
        changes = dict(settings or {}) | {"mode": "distributed"}
        job = self.job(scraper, settings=changes, workers=workers, args=dict(args or {}))
        job = listening_job(job, at, announce)
        run = await bound_standing_run(self.queue, job)
        check = (await self.local_workers.add(job, run)).check
        await until_listening(self.queue, job.scraper.name, workers)
        return RunHandle(self.queue, run, routes=self.project.routes, job_of=lambda run: job, check=check)

    async def scrape(
        self,
        scraper: str | Scraper,
        url: str,
        *,
        timeout: timedelta | str = CALL_TIMEOUT,
        strategy: str = "least_loaded",
        **payload: Any,
    ) -> list[Any]:
        """Have a listening worker fetch a page now, and return its items, which are also stored.

        Raises NobodyListens, TaskDied when it became a dead letter, and NotAnswered after the timeout.
        """
        task = Task(url=url, payload=payload)
        return (await self.call(scraper, task, timeout=timeout, strategy=strategy)).items

    async def call(
        self,
        scraper: str | Scraper,
        task: Task | str,
        *,
        timeout: timedelta | str = CALL_TIMEOUT,
        strategy: str = "least_loaded",
    ) -> Scraped:
        """Have a listening worker process a task or URL now; return the full result, raise like `scrape`."""
        limit = read_positive_duration("timeout", timeout)
        balancer = await self._balancers.of(await self._name(scraper), strategy)
        return await balancer.call(Task(url=task) if isinstance(task, str) else task, timeout=limit)

    def job(
        self,
        scraper: str | Scraper,
        *,
        workers: int | None = None,
        declared: Sequence[str] = (),
        **more: Any,
    ) -> Job:
        """Return the job of a scraper, for `WorkerHost` and others of `shoal.fleet`; `more` are Job fields.

        The project's worker settings are the defaults. Private hosts of `declared` URLs are allowed too.
        """
        plan = self.project.cluster.workers
        defaults = {
            "concurrency": plan.concurrency,
            "batch": plan.batch_size,
            "memory": plan.memory,
        }
        fields = {name: value for name, value in defaults.items() if value is not None} | more
        name = scraper if isinstance(scraper, str) else locate_scraper(scraper)
        loaded = load(self.project, name)
        given = fields.pop("settings", NOTHING)
        settings = with_declared_hosts(self.project, name, loaded.scraper, given, declared)
        return make_job(
            name, loaded, queue_url=self.queue_url, settings=settings, workers=max(workers or 1, 1), **fields
        )

    async def _name(self, scraper: str | Scraper) -> str:
        if not isinstance(scraper, str):
            return scraper.name
        if scraper not in self._names:
            self._names[scraper] = (await asyncio.to_thread(load, self.project, scraper)).scraper.name
        return self._names[scraper]

    def _handle(self, run: Run) -> RunHandle:
        job_of = partial(job_of_run, self.project, self.queue_url)
        return RunHandle(self.queue, run, routes=self.project.routes, job_of=job_of)


def _name_run(error: Exception, run: Run) -> None:
    """Add the id of a run whose start has failed to the error."""
    if isinstance(error, ShoalError) and not getattr(error, "run_id", None):
        vars(error)["run_id"] = run.id
    error.add_note(
        f"Run {run.id} was created. Resume it: run_id={run.id!r}; "
        f"or delete it: {shoal_command(f'purge {run.id}')}"
    )
