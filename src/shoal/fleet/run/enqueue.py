"""Enqueue tasks into a run: the one path for commands, programs and the JSON API.

Every source is routed by the project's rules; what cannot be queued is counted, reported, and handled by a
policy.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal, get_args

from shoal.core.errors import InvalidSetting, InvalidTask, OutOfScope, PrivateAddress, UnknownRun
from shoal.core.model import EnqueueReport, Run, RunSettings, Task
from shoal.core.tasks import first
from shoal.core.values import hint
from shoal.discover.feed import Feed, OnRefusal
from shoal.discover.rejects import RejectFile
from shoal.discover.routing import Routes
from shoal.discover.sitemaps.report import SitemapReport
from shoal.discover.source import Refusal
from shoal.fetch.egress import Egress
from shoal.fleet.command_hints import worker_command
from shoal.fleet.job import Job
from shoal.fleet.run.lifecycle import reopen
from shoal.fleet.run.settings import use_settings
from shoal.fleet.sources.dead_seeds import DeadSeeds
from shoal.fleet.sources.declared import is_marked, mark_seeded, mark_seeding
from shoal.fleet.sources.seeds import OnReport, Seeds, task_of
from shoal.queue.contract import Queue, WorkQueue
from shoal.queue.intake import Intake
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker.run_settings import note_private_hosts, private_hosts_to_allow

MAX_REPORTED = 10  # refusals in a report
MAX_HOSTS = 1_000  # of a run that are looked at

InvalidPolicy = Literal["skip", "dead", "raise"]
OnInvalid = InvalidPolicy | Callable[[Refusal], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnqueueReport(EnqueueReport):
    """Result of an enqueue, with the first few seeds that could not be queued."""

    refused: Sequence[Refusal] = ()
    _read_ids: Callable[[], list[str | None]] = field(default=list, repr=False, compare=False)

    @property
    def ids(self) -> list[str | None]:
        """The id of each URL and task that was passed as a list, in order; None for what was refused.

        A generator is not stored, so it has none.
        """
        return self._read_ids()


def read_policy(key: str, value: str) -> InvalidPolicy:
    """Read the policy for seeds that cannot be queued."""
    for policy in get_args(InvalidPolicy):
        if value == policy:
            found: InvalidPolicy = policy
            return found
    raise InvalidSetting(key, f"cannot be {value!r}. {hint(value, get_args(InvalidPolicy))}")


class RunEnqueuer:
    """Streams the tasks of all sources: `enqueue(run.id, enqueuer, on_invalid=enqueuer.invalid)`."""

    def __init__(
        self,
        queue: Queue,
        feed: Feed,
        scraper: Scraper,
        seeds: Seeds,
        routes: Routes,
        dead: DeadSeeds | None,
    ) -> None:
        self._queue = queue
        self._run: Run | None = None
        self._feed, self._scraper, self._seeds, self._routes, self._dead = feed, scraper, seeds, routes, dead
        self._stream: AsyncIterator[Task] = aiter(feed)
        self._first: Task | None = None

    @property
    def refused(self) -> int:
        """How many seeds could not be queued so far."""
        return self._feed.refused

    def invalid(self, position: int, error: InvalidTask) -> None:
        """Record a task that the queue refused."""
        self._feed.invalid(position, error)

    def into(self, run: Run) -> "RunEnqueuer":
        """Set the target run; dead letters for refused seeds go there too."""
        self._run = run
        if self._dead:
            self._dead.run = run
        return self

    async def begin(self, *, strict: bool = False) -> None:
        """Read up to the first task, so that a source that cannot be read fails before a run is created.

        With `strict`, raises InvalidTask if the first one cannot be queued.
        """
        self._first = await anext(self._stream, None)
        if strict and self._first:
            try:
                Intake("", RunSettings()).entry(self._first)
            except InvalidTask as error:
                self.invalid(0, error)

    async def __aiter__(self) -> AsyncGenerator[Task]:
        marked = self._run if is_marked(self._seeds) else None
        if marked:
            await mark_seeding(self._queue, marked.id, self._seeds)
        if self._first:
            yield self._first
        async for task in self._stream:
            yield task
            if self._dead:
                await self._dead.flush(when_many=True)
        if self._dead:
            await self._dead.flush()
        if marked:
            await mark_seeded(self._queue, marked.id)

    def ids(self, run: Run) -> list[str | None]:
        """Return the ids, in a run, of the tasks that were passed as lists, and of URLs that were typed."""
        intake, first = Intake(run.id, run.settings), self._seeds.step or self._scraper.first.name
        lists = [stream for _, stream in self._seeds.given if isinstance(stream, Sequence)]
        return [
            _id(intake, self._routes, self._scraper.steps, task_of(one, first, self._scraper.steps))
            for one in chain(*lists, self._seeds.urls)
        ]


def _id(intake: Intake, routes: Routes, steps: Collection[str], task: Task | None) -> str | None:
    try:
        routed = routes.apply(task) if task else None
        return intake.entry(routed).id.hex() if routed and routed.step in steps else None
    except InvalidTask:
        return None


@asynccontextmanager
async def open_enqueuer(
    queue: Queue,
    scraper: Scraper,
    seeds: Seeds,
    routes: Routes,
    *,
    on_invalid: OnInvalid = "skip",
    on_refusal: OnRefusal = lambda refusal: None,
    on_report: OnReport = lambda report: None,
    on_source: OnReport = lambda report: None,
) -> AsyncIterator[RunEnqueuer]:
    """Yield the tasks of all sources, routed; what cannot be queued is reported, then left to the policy."""
    dead = DeadSeeds(queue) if on_invalid == "dead" else None

    def refuse(refusal: Refusal) -> None:
        on_refusal(refusal)
        if dead:
            dead.add(refusal)
        elif on_invalid == "raise":
            raise InvalidTask(refusal.text, f"{refusal.where}: {refusal.reason}")
        elif callable(on_invalid):
            on_invalid(refusal)

    async with seeds.feed(queue, scraper, routes, refuse, on_report, on_source) as feed:
        yield RunEnqueuer(queue, feed, scraper, seeds, routes, dead)


@dataclass(slots=True)
class Refusals:
    """Stores the first few refusals, and writes all to a file if there is one."""

    first: list[Refusal] = field(default_factory=list)
    file: RejectFile | None = None
    count: int = 0

    def record(self, refusal: Refusal) -> None:
        """Record one."""
        self.count += 1
        if len(self.first) < MAX_REPORTED:
            self.first.append(refusal)
        if self.file:
            self.file.write(refusal)

    def record_problems(self, report: "SitemapReport") -> None:
        """Record the sitemaps and feeds that could not be read completely."""
        for problem in report.problems:
            self.record(Refusal(report.source, problem.url, problem.reason))


async def enqueue_all(
    queue: WorkQueue, run: Run, enqueuer: RunEnqueuer, refusals: Refusals, known: Iterable[Task] = ()
) -> RunEnqueueReport:
    """Stream the tasks of all sources into a run, and those of pages to recrawl."""
    report = await queue.enqueue(run.id, enqueuer.into(run), on_invalid=enqueuer.invalid)
    report += await queue.enqueue(run.id, known)
    return RunEnqueueReport(
        added=report.added,
        duplicate=report.duplicate,
        known=report.known,
        invalid=enqueuer.refused,
        refused=refusals.first,
        _read_ids=lambda: enqueuer.ids(run),
    )


async def fill(
    queue: Queue, job: Job, run: Run, routes: Routes, seeds: Seeds, *, on_invalid: OnInvalid = "skip"
) -> RunEnqueueReport:
    """Enqueue the tasks of all sources into an existing run; raises RunConflict if it cannot be resumed."""
    refusals = Refusals()
    # An ended run is reopened, or the error says why not: otherwise no worker would do the new tasks.
    job, _ = await use_settings(queue, replace(job, joins=True), run)
    run = await reopen(queue, await queue.run(run.id), job.scraper)
    opened = open_enqueuer(
        queue,
        job.scraper,
        seeds,
        routes,
        on_invalid=on_invalid,
        on_refusal=refusals.record,
        on_report=refusals.record_problems,
    )
    async with opened as enqueuer:
        # Sitemaps add their problems to the report's list when they are closed.
        return await enqueue_all(queue, run, enqueuer, refusals)


async def note_hosts_to_allow(queue: Queue, run: Run, settings: ScraperSettings) -> list[str]:
    """Return the private hosts of a run that its settings refuse, and record them for later commands.

    As far as their names tell, and among the first hosts: others are recorded when a worker refuses them.
    """

    egress, refused = Egress(settings.allow_private), list[str]()
    with suppress(UnknownRun):  # a new run that got no task is not kept
        async for host in first(queue.hosts(run.id), MAX_HOSTS):
            try:
                egress.admit_unresolved(f"http://{host.host}/")
            except PrivateAddress:
                refused.append(host.host)
            except OutOfScope:
                pass  # no URL of this host is fetched, whatever is allowed
        if refused:
            await note_private_hosts(queue, run.id, refused)
        return await private_hosts_to_allow(queue, run.id)
    return []


def queued_row(
    job: Job,
    run: Run,
    report: EnqueueReport,
    invalid: int,
    *,
    refused: Iterable[Refusal],
    ids: Sequence[str | None],
    private: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the fields that `shoal enqueue --json` promises; `private` hosts have to be allowed."""
    return {
        "status": "queued",
        "run_id": run.id,
        "enqueued": report.added,
        "duplicate": report.duplicate,
        "known": report.known,
        "invalid": invalid,
        "refused": [one.as_json() for one in refused],
        "ids": ids,
        "worker_command": worker_command(job, run.id, private=private),
    }


async def filled_row(queue: Queue, job: Job, run: Run, report: RunEnqueueReport) -> dict[str, Any]:
    """Return these fields for a run that was filled."""
    private = await note_hosts_to_allow(queue, run, job.scraper.settings)
    return queued_row(
        job, run, report, report.invalid, refused=report.refused, ids=report.ids, private=private
    )
