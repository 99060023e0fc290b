"""Shoal from Python: start runs, watch them, and have their results as they come.

A run lives in its queue, not in the program that started it: `app.run(run_id)` takes it up after a restart.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from shoal.core.errors import InvalidInput, QueueError, TaskDied
from shoal.core.model import DeadLetter, Run, Stats, Task, TaskState
from shoal.fleet.again import Comparison, compared, pages_again
from shoal.fleet.assignment import admit
from shoal.fleet.balance import TIMEOUT, Balancers
from shoal.fleet.crew import Crew
from shoal.fleet.dispatch import Scraped
from shoal.fleet.launch import Job, books_of, crew_of, open_run
from shoal.fleet.logs import LogPlan
from shoal.fleet.ondemand import ANYWHERE, listening_job, standing_run, until_listening
from shoal.fleet.partitions import PartitionStatus, partitions
from shoal.fleet.progress import Progress, Snapshot
from shoal.fleet.project import Project
from shoal.fleet.proxies import ProxyStatus, proxies
from shoal.fleet.records import Record, records
from shoal.fleet.table import read_table
from shoal.fleet.watch import metrics_of, seen_by, watching
from shoal.queue.contract import Queue
from shoal.queue.intake import task_id
from shoal.queue.open import open_queue
from shoal.scrape.load import load_scraper
from shoal.worker.share import HEARTBEAT

log = logging.getLogger(__name__)
LOOK_EVERY = timedelta(milliseconds=500)


class connect:
    """Connects to a queue: `async with shoal.connect("postgresql://…") as app`.

    Scrapers are named as in the project file of `folder`, or as FILE[:NAME].
    """

    def __init__(self, queue_url: str, *, folder: str | Path = ".") -> None:
        self._url, self._folder = queue_url, Path(folder).absolute()
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
        return App(await open_queue(self._url), self._url, Project.find(self._folder))


class App:
    """A queue and the scrapers of a project."""

    def __init__(self, queue: Queue, queue_url: str, project: Project) -> None:
        self.queue = queue
        self._url, self._project = queue_url, project
        self._crews = AsyncExitStack()
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
        urls: Iterable[str] = (),
        tasks: Iterable[Task] = (),
        run_id: str | None = None,
        workers: int = 0,
        settings: Mapping[str, Any] | None = None,
        again: str | None = None,
        partitions: Sequence[str] | str | None = None,
        partition_table: Mapping[int, Sequence[str]] | None = None,
        heartbeat: timedelta = HEARTBEAT,
        logs: LogPlan | None = None,
        metrics: str | None = None,
        trace: bool = False,
    ) -> "RunHandle":
        """Make a run and fill it; `workers` starts some here, else `shoal work` does so anywhere.

        A run id that exists is gone on with: what has entered before is not entered again. `again` names an
        earlier run whose pages are visited once more; `compared` then says what is new, changed and gone.
        `partitions` are those that the workers are for, or "auto" or "exclusive" to share them out by a plan,
        which `partition_table` may write down: worker number to partitions. `heartbeat` is how soon they are
        shared out anew. `logs`, `metrics` (HOST:PORT) and `trace` are of the workers that are started here.
        """
        changes = dict(settings or {}) | ({"again": again} if again else {})
        if not workers and (logs or metrics or trace):
            raise InvalidInput("Logs, metrics and traces are of workers; start some here with: workers=1")
        watched = watching(logs, metrics, trace, key="metrics")
        job = replace(self._job(scraper, changes, workers), heartbeat=heartbeat, **watched)
        if partitions or partition_table:
            job = replace(job, **_shared_out(partitions, partition_table))
        known = await pages_again(self.queue, job.scraper, but=run_id)
        run = await open_run(self.queue, job.scraper, run_id=run_id)
        step = job.scraper.first.name
        seeds = [*tasks, *(Task(url=url, step=step) for url in urls), *known]
        await self.queue.enqueue(run.id, seeds, on_invalid=_refuse)
        handle = RunHandle(self.queue, run)
        if workers:
            await admit(self.queue, run.id, job.sharing)
            await self._crews.enter_async_context(_Hired(handle, job))
        return handle

    async def run(self, run_id: str) -> "RunHandle":
        """Take up a run that was started before; raises UnknownRun."""
        return RunHandle(self.queue, await self.queue.run(run_id))

    async def gather(
        self,
        scraper: str,
        payloads: Sequence[Mapping[str, Any]],
        *,
        step: str | None = None,
        run_id: str | None = None,
        workers: int = 0,
        timeout: timedelta | None = None,
    ) -> list[list[Any]]:
        """Handle every payload by a step, the first if none is named; return the items of each, in order.

        Raises TaskDied when one of them became a dead letter, and TimeoutError. With a run id it can be asked
        again after a restart: what was done is not done twice.
        """
        job = self._job(scraper, {}, workers)
        name = step or job.scraper.first.name
        tasks = [Task(step=name, payload=payload, key=str(number)) for number, payload in enumerate(payloads)]
        handle = await self.start(scraper, tasks=tasks, run_id=run_id, workers=workers)
        ids = [task_id(handle.info, task) for task in tasks]
        async with asyncio.timeout(timeout.total_seconds() if timeout else None):
            found = await handle.items_of(ids)
        return [found[one] for one in ids]

    async def listen(
        self,
        scraper: str,
        *,
        workers: int = 1,
        at: str = ANYWHERE,
        announce: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> "RunHandle":
        """Start workers here that scrape on demand, for as long as the app is open; return their run."""
        changes = dict(settings or {}) | {"mode": "distributed"}
        job = listening_job(self._job(scraper, changes, workers), at, announce)
        handle = RunHandle(self.queue, await standing_run(self.queue, job.scraper))
        await self._crews.enter_async_context(_Hired(handle, job))
        await until_listening(self.queue, job.scraper.name, workers)
        return handle

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
        if scraper not in self._names:
            self._names[scraper] = self._job(scraper, {}, 0).scraper.name
        balancer = await self._balancers.of(self._names[scraper], strategy)
        return await balancer.call(task, timeout=timeout)

    def _job(self, name: str, settings: dict[str, Any], workers: int) -> Job:
        entry = self._project.entry(name)
        folder = self._project.folder
        scraper = entry.load(folder) if entry else load_scraper(name)
        return Job(
            scraper=scraper.replace(**settings),
            name=name,
            reference=entry.reference(folder) if entry else name,
            queue_url=self._url,
            overrides=(dict(entry.overrides) if entry else {}) | settings,
            workers=max(workers, 1),
        )


@dataclass(frozen=True, slots=True)
class RunHandle:
    """A run, wherever it is worked on."""

    queue: Queue
    info: Run

    @property
    def id(self) -> str:
        """The run's id."""
        return self.info.id

    async def watch(self, every: timedelta = LOOK_EVERY) -> AsyncIterator[Snapshot]:
        """Yield how the run is, again and again, the last time when it has finished."""
        progress = Progress(self.queue, self.id)
        while True:
            snapshot = await progress.look()
            yield snapshot
            if snapshot.state in ("finished", "cancelled"):
                return
            await asyncio.sleep(every.total_seconds())

    async def results(self, *, step: str | None = None, after: int = 0) -> AsyncIterator[Any]:
        """Yield the items as they come, until the run has finished.

        A task that died is no item; `dead` has them.
        """
        seen: set[int] = set()
        last = after
        async for snapshot in self.watch():
            # An item may be committed after one with a higher id: the last look goes over all of them again.
            finished = snapshot.state in ("finished", "cancelled")
            async for item in self.queue.items(self.id, step=step, after=after if finished else last):
                if item.id not in seen:
                    seen.add(item.id)
                    last = max(last, item.id)
                    yield item.data

    async def compared(self) -> Comparison:
        """Return what the run has found of its pages so far: new, changed, unchanged, gone."""
        return await compared(self.queue, self.info)

    def records(
        self,
        *,
        step: str | None = None,
        states: Collection[TaskState] | None = None,
        key: str | None = None,
    ) -> AsyncIterator[Record]:
        """Yield every record's way through the steps, or that of those in a step or a state, or of one."""
        return records(self.queue, self.id, step=step, states=states, key=key)

    async def proxies(self) -> list[ProxyStatus]:
        """Return the proxies by name: what came by each, what went wrong, and which are benched."""
        return await proxies(self.queue, self.id)

    async def partitions(self) -> list[PartitionStatus]:
        """Return the partitions by name: how much is left of each, and who has it by the plan."""
        return await partitions(self.queue, self.id)

    async def dead(self) -> list[DeadLetter]:
        """Return the dead letters."""
        return [letter async for letter in self.queue.dead(self.id)]

    async def wait(self, timeout: timedelta | None = None) -> Stats:
        """Return the counts when the run has finished; raises TimeoutError, and nothing is lost by that."""
        async with asyncio.timeout(timeout.total_seconds() if timeout else None):
            async for snapshot in self.watch():
                stats = snapshot.stats
        return stats

    async def items_of(self, ids: Sequence[str]) -> dict[str, list[Any]]:
        """Return the items of tasks when all of them are done; raises TaskDied as soon as one is dead."""
        async for _ in self.watch():
            async for letter in self.queue.dead(self.id):
                if letter.id in ids:
                    raise TaskDied(self.id, letter.id, letter.task.url, letter.error)
        found: dict[str, list[Any]] = {one: [] for one in ids}
        async for item in self.queue.items(self.id):
            if item.task_id in found:
                found[item.task_id].append(item.data)
        return found


class _Hired:
    """Workers on a run for as long as an app is open."""

    def __init__(self, handle: RunHandle, job: Job) -> None:
        self._handle, self._job = handle, job
        self._crew: Crew | None = None
        self._task: asyncio.Task[Any] | None = None
        self._watch = AsyncExitStack()

    async def __aenter__(self) -> None:
        queue, job, run = self._handle.queue, self._job, self._handle.info
        async with AsyncExitStack() as stack:
            logs = stack.enter_context(books_of(job, run))
            self._crew = crew_of(queue, job, run, logs)
            metrics = await stack.enter_async_context(metrics_of(job.metrics, self._crew, log.info))
            if job.metrics:
                await stack.enter_async_context(seen_by(metrics, queue, run))
            self._task = asyncio.create_task(self._crew.run())
            self._watch = stack.pop_all()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._crew is not None and self._task is not None
        async with self._watch:
            if not self._task.done():
                self._crew.stop()
                self._crew.stop()
            with suppress(QueueError):
                await self._task


def _shared_out(
    partitions: Sequence[str] | str | None, table: Mapping[int, Sequence[str]] | None
) -> dict[str, Any]:
    words = [partitions] if isinstance(partitions, str) else list(partitions or ["auto"])
    return {"partitions": words, "homes": read_table(table, "partition_table") if table else {}}


def _refuse(position: int, error: InvalidInput) -> None:
    raise error
