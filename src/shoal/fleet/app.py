"""Shoal from Python: start runs, watch them, and have their results as they come.

A run lives in its queue, not in the program that started it: `app.run(run_id)` takes it up after a restart.
"""

import asyncio
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from shoal.core.errors import InvalidInput, InvalidTask, RunConflict, ShoalError, UnknownRun
from shoal.core.model import ZERO, HostStatus, Run, Stats, Task, WorkerStatus
from shoal.discover.rejects import RejectFile
from shoal.fleet.again import pages_again
from shoal.fleet.assignment import admit
from shoal.fleet.balance import TIMEOUT, Balancers
from shoal.fleet.dispatch import Scraped
from shoal.fleet.filling import OnInvalid, Refusals, enter, open_filling
from shoal.fleet.handle import RunHandle
from shoal.fleet.hired import Hired
from shoal.fleet.jobs import job_of_run, load, make_job
from shoal.fleet.launch import Job, lock_of, open_run
from shoal.fleet.logs import LogPlan
from shoal.fleet.named import read_sources
from shoal.fleet.ondemand import ANYWHERE, listening_job, standing_run, until_listening
from shoal.fleet.project import Project
from shoal.fleet.retyping import DEFAULT_QUEUE
from shoal.fleet.seeds import Seeds, Stream
from shoal.fleet.table import read_table
from shoal.fleet.tokens import TokenStatus, tokens
from shoal.fleet.watch import watching
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from shoal.worker.share import HEARTBEAT


class connect:
    """Connects to a queue: `async with shoal.connect("postgresql://…") as app`.

    Without an address it is that of SHOAL_QUEUE or of the project. Scrapers are named as in the project file
    of `folder`, or as FILE[:NAME].
    """

    def __init__(self, queue_url: str | None = None, *, folder: str | Path = ".") -> None:
        self._project = Project.find(Path(folder).absolute())
        self._url = queue_url or os.environ.get("SHOAL_QUEUE") or self._project.queue or DEFAULT_QUEUE
        self._app: App | None = None

    def __await__(self) -> Generator[Any, None, "App"]:
        return self._open().__await__()

    async def __aenter__(self) -> "App":
        self._app = await self._open()
        return self._app

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._app:
            await self._app.close()

    async def _open(self) -> "App":
        return App(await open_queue(self._url), self._url, self._project)


class App:
    """A queue and the scrapers of a project."""

    def __init__(self, queue: Queue, queue_url: str, project: Project) -> None:
        self.queue = queue
        self._url, self._project = queue_url, project
        self._crews, self._hired = AsyncExitStack(), list[Hired]()
        self._balancers, self._names = Balancers(queue), dict[str, str]()

    @property
    def queue_url(self) -> str:
        """The queue's address, which may hold a password."""
        return self._url

    @property
    def project(self) -> Project:
        """The project that names the scrapers."""
        return self._project

    async def close(self) -> None:
        """Stop the workers that were started here, and close the queue."""
        await self._balancers.close()
        await self._crews.aclose()
        await self.queue.close()

    async def start(
        self,
        scraper: str,
        *,
        urls: Stream = (),
        tasks: Stream = (),
        run_id: str | None = None,
        workers: int | None = None,
        on_invalid: OnInvalid = "skip",
        rejects: str | None = None,
        settings: Mapping[str, Any] | None = None,
        again: str | None = None,
        steps: Sequence[str] | None = None,
        at_once: int | None = None,
        stagger: timedelta = ZERO,
        partitions: Sequence[str] | str | None = None,
        partition_table: Mapping[int, Sequence[str]] | None = None,
        heartbeat: timedelta = HEARTBEAT,
        logs: LogPlan | None = None,
        metrics: str | None = None,
        trace: bool = False,
        **sources: Any,
    ) -> RunHandle:
        """Make a run, fill it, and work on it as its mode says; `run.report` tells what was entered.

        `workers` start here. Where it is left out, a scraper that was put in single mode has one, others
        none: `run.worker_command` starts some anywhere. Single mode is locked: ScraperBusy names the holder.

        A run id that exists is gone on with: what has entered before is not entered again. `again` names an
        earlier run whose pages are visited once more; `compared` then says what is new, changed and gone.

        `urls` and `tasks` may be any iterables, also async ones, and are never held as a whole. `sources` are
        the others by the names of `shoal run`: urls_file, sitemap, combine, axis, from_run. What cannot be
        queued is skipped and counted; `on_invalid` may be "dead" for dead letters, "raise", or a function of
        each refusal, and `rejects` names a file for them.

        `partitions` are those that the workers are for, or "auto" or "exclusive" to share them out by a plan,
        which `partition_table` may write down: worker number to partitions. `heartbeat` is how soon they are
        shared out anew. `logs`, `metrics` (HOST:PORT) and `trace` are of the workers that are started here.
        """
        seeds = read_sources(urls, tasks, sources)
        job = self.job(
            scraper,
            workers=workers,
            settings=dict(settings or {}) | ({"again": again} if again else {}),
            partitions=[partitions] if isinstance(partitions, str) else partitions,
            homes=read_table(partition_table, "partition_table") if partition_table else None,
            steps=list(steps) if steps else None,
            stagger=stagger,
            heartbeat=heartbeat,
            **({"at_once": at_once} if at_once else {}),
        )
        if workers is None:
            workers = 1 if job.scraper.settings.mode_given and job.scraper.settings.mode == "single" else 0
        if not workers and (logs or metrics or trace):
            raise InvalidInput("Logs, metrics and traces are of workers; start some here with: workers=1")
        job = replace(job, **watching(logs, metrics, trace, key="metrics"))
        return await self._start(job, seeds, run_id, workers, on_invalid, rejects)

    async def _start(
        self,
        job: Job,
        seeds: Seeds,
        run_id: str | None,
        workers: int,
        on_invalid: OnInvalid,
        rejects: str | None,
    ) -> RunHandle:
        routes = self._project.routes
        for hired in self._hired if workers else ():
            await hired.let_go(job.scraper.name)
        async with AsyncExitStack() as stack:
            # Whatever can be refused is refused before the run is made.
            lock = await stack.enter_async_context(lock_of(self.queue, job, run_id)) if workers else None
            refusals = Refusals(file=stack.enter_context(RejectFile(rejects)) if rejects else None)
            known = await pages_again(self.queue, job.scraper, but=run_id)
            filling = await stack.enter_async_context(
                open_filling(
                    self.queue,
                    job.scraper,
                    seeds,
                    routes,
                    on_invalid=on_invalid,
                    on_refusal=refusals.note,
                )
            )
            await filling.begin(strict=on_invalid == "raise")
            run = await open_run(self.queue, job.scraper, run_id=run_id)
            with _naming(run):
                report = await enter(self.queue, run, filling, refusals, known)
                check = None
                if lock:
                    await lock.name_run(run.id)
                    await admit(self.queue, run.id, job.sharing)
                    hired = Hired(self.queue, run, job, lock)
                    await self._crews.enter_async_context(hired)
                    self._hired = [one for one in self._hired if one.is_working] + [hired]
                    check = hired.check
        return RunHandle(self.queue, run, report, routes, lambda run: job, check)

    async def run(self, run_id: str) -> RunHandle:
        """Take up a run that was started before; raises UnknownRun."""
        return self._handle(await self.queue.run(run_id))

    async def runs(self) -> list[RunHandle]:
        """Return all runs, the newest first."""
        return [self._handle(run) for run in await self.queue.runs()]

    async def stats(self, scraper: str, run_id: str | None = None) -> Stats:
        """Return the counts of a run of a scraper, the newest if none is named.

        Raises UnknownRun, and RunConflict for a run of another scraper.
        """
        name = await self._name(scraper)
        if run_id is None:
            newest = next((run for run in await self.queue.runs() if run.scraper == name), None)
            if newest is None:
                raise UnknownRun(f"of {scraper}")
            return await self.queue.stats(newest.id)
        run = await self.queue.run(run_id)
        if run.scraper != name:
            raise RunConflict.of_another(run_id, run.scraper, name)
        return await self.queue.stats(run_id)

    async def workers(self) -> Sequence[WorkerStatus]:
        """Return the workers of all runs that have ever sent a heartbeat."""
        return await self.queue.workers()

    async def hosts(self) -> list[HostStatus]:
        """Return the hosts of all runs: how they are treated, and what is left of each."""
        return [host async for host in self.queue.hosts()]

    async def pause_host(self, host: str, duration: timedelta) -> None:
        """Send a host no request for a while, in any run; zero ends a pause."""
        await self.queue.pause_host(host.lower(), duration)

    async def slow_host(self, host: str, delay: timedelta) -> None:
        """Keep at least this gap between two requests to a host, in any run; zero lifts it."""
        await self.queue.slow_host(host.lower(), delay)

    async def forget(self, scraper: str) -> int:
        """Forget what runs of a scraper with `dedup` have queued, and return how many tasks were known.

        The next run queues them again; what is in earlier runs stays.
        """
        return await self.queue.forget(await self._name(scraper))

    async def tokens(self) -> list[TokenStatus]:
        """Return the API tokens that the fleet knows: what is left of each."""
        return await tokens(self.queue)

    async def gather(
        self,
        scraper: str,
        payloads: Sequence[Mapping[str, Any]],
        *,
        step: str | None = None,
        run_id: str | None = None,
        workers: int | None = None,
        timeout: timedelta | None = None,
        return_exceptions: bool = False,
    ) -> list[Any]:
        """Handle every payload by a step, the first if none is named; return the items of each, in order.

        A payload is known by what it holds: given twice, it is handled once and answered twice. With a run id
        it can be asked again after a restart, in whatever order: what was done is not done twice.

        Raises TaskDied or TaskExpired as soon as one has failed, whose `results` are those of the others so
        far, InvalidTask for what is no payload, and TimeoutError. With `return_exceptions` the error of each
        that failed stands in its place instead.
        """
        tasks = [Task(step=step, payload=one) if step else Task(payload=one) for one in payloads]
        policy: OnInvalid = "skip" if return_exceptions else "raise"
        handle = await self.start(
            scraper,
            tasks=tasks,
            run_id=run_id,
            workers=workers,
            on_invalid=policy,
            settings={"dedup": None},  # what earlier runs have queued has no result in this one
        )
        ids = handle.ids
        waiting = await handle.outcomes(
            list({one for one in ids if one}), timeout, strict=not return_exceptions
        )
        if waiting.errors and not return_exceptions:
            raise next(iter(waiting.errors.values()))
        found: dict[str, Any] = {**waiting.items, **waiting.errors}
        refused = "its payload or its step is not one that can be queued; see the run's report"
        return [
            found[one] if one else InvalidTask(task, refused) for task, one in zip(tasks, ids, strict=True)
        ]

    async def listen(
        self,
        scraper: str,
        *,
        workers: int = 1,
        at: str = ANYWHERE,
        announce: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> RunHandle:
        """Start workers here that scrape on demand, for as long as the app is open; return their run."""
        changes = dict(settings or {}) | {"mode": "distributed"}
        job = listening_job(self.job(scraper, settings=changes, workers=workers), at, announce)
        run = await standing_run(self.queue, job.scraper)
        hired = Hired(self.queue, run, job, lock_of(self.queue, job, run.id))
        await self._crews.enter_async_context(hired)
        await until_listening(self.queue, job.scraper.name, workers)
        return RunHandle(
            self.queue, run, routes=self._project.routes, job_of=lambda run: job, check=hired.check
        )

    async def scrape(
        self,
        scraper: str,
        url: str,
        *,
        timeout: timedelta = TIMEOUT,
        strategy: str = "least_loaded",
        **payload: Any,
    ) -> list[Any]:
        """Have a worker that listens fetch a page now, and return its items, which are stored too.

        Raises NobodyListens, TaskDied when it became a dead letter, and NotAnswered after the timeout.
        """
        task = Task(url=url, payload=payload)
        return (await self.call(scraper, task, timeout=timeout, strategy=strategy)).items

    async def call(
        self, scraper: str, task: Task, *, timeout: timedelta = TIMEOUT, strategy: str = "least_loaded"
    ) -> Scraped:
        """Have a worker that listens handle a task now, and return all about it; raises as `scrape` does."""
        balancer = await self._balancers.of(await self._name(scraper), strategy)
        return await balancer.call(task, timeout=timeout)

    def job(self, scraper: str, *, workers: int | None = None, **more: Any) -> Job:
        """Return the job of a scraper, for `Station` and others of `shoal.fleet`; `more` are fields of a Job.

        What the project says of workers holds where it is not said here.
        """
        plan = self._project.cluster.workers
        usual = {"at_once": plan.at_once, "batch": plan.batch_size}
        fields = {name: value for name, value in usual.items() if value is not None} | more
        return make_job(
            scraper, load(self._project, scraper), queue_url=self._url, workers=max(workers or 1, 1), **fields
        )

    async def _name(self, scraper: str) -> str:
        if scraper not in self._names:
            self._names[scraper] = (await asyncio.to_thread(load, self._project, scraper)).scraper.name
        return self._names[scraper]

    def _handle(self, run: Run) -> RunHandle:
        job_of = partial(job_of_run, self._project, self._url)
        return RunHandle(self.queue, run, routes=self._project.routes, job_of=job_of)


@contextmanager
def _naming(run: Run) -> Generator[None]:
    """Name a run that was made in an error that comes after that."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ShoalError) and not getattr(error, "run_id", None):
            vars(error)["run_id"] = run.id
        error.add_note(
            f"Run {run.id} was made. Go on with it: run_id={run.id!r}; or delete it: shoal purge {run.id}"
        )
        raise
