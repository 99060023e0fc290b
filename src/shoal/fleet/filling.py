"""Filling a run: the one way by which commands, programs and the JSON API enter tasks into it.

Every source is routed by the project's rules; what cannot be queued is counted, told, and treated by a
policy.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from shoal.core.errors import InvalidSetting, InvalidTask
from shoal.core.model import EnqueueReport, Run, RunSettings, Task
from shoal.core.values import hint
from shoal.discover.feed import Feed, OnRefusal
from shoal.discover.rejects import RejectFile
from shoal.discover.routing import Routes
from shoal.discover.source import Refusal
from shoal.fleet.deadseeds import DeadSeeds
from shoal.fleet.launch import Job
from shoal.fleet.lifecycle import reopened
from shoal.fleet.retyping import worker_command
from shoal.fleet.seeds import OnReport, Seeds, task_of
from shoal.queue.contract import Queue
from shoal.queue.intake import Intake
from shoal.scrape.scraper import Scraper

MOST_TOLD = 10  # refusals

InvalidPolicy = Literal["skip", "dead", "raise"]
OnInvalid = InvalidPolicy | Callable[[Refusal], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class FillReport(EnqueueReport):
    """What became of the tasks that were handed in, and the first few of those that could not be queued."""

    refused: Sequence[Refusal] = ()
    _name: Callable[[], list[str | None]] = field(default=list, repr=False, compare=False)

    @property
    def ids(self) -> list[str | None]:
        """The id of each URL and task that was handed in as a list, in order; None for what was refused.

        A generator is not kept, and has none.
        """
        return self._name()


def read_policy(key: str, value: str) -> InvalidPolicy:
    """Read what becomes of a seed that cannot be queued."""
    for policy in get_args(InvalidPolicy):
        if value == policy:
            found: InvalidPolicy = policy
            return found
    raise InvalidSetting(key, f"cannot be {value!r}. {hint(value, get_args(InvalidPolicy))}")


class Filling:
    """The tasks of all sources on their way: `enqueue(run.id, filling, on_invalid=filling.invalid)`."""

    def __init__(
        self, feed: Feed, scraper: Scraper, seeds: Seeds, routes: Routes, dead: DeadSeeds | None
    ) -> None:
        self._feed, self._scraper, self._seeds, self._routes, self._dead = feed, scraper, seeds, routes, dead
        self._stream: AsyncIterator[Task] = aiter(feed)
        self._first: Task | None = None

    @property
    def refused(self) -> int:
        """How many could not be queued so far."""
        return self._feed.refused

    def invalid(self, position: int, error: InvalidTask) -> None:
        """Take note of a task that the queue refused."""
        self._feed.invalid(position, error)

    def into(self, run: Run) -> "Filling":
        """Say which run it is for; dead letters of what is refused go there too."""
        if self._dead:
            self._dead.run = run
        return self

    async def begin(self, *, strict: bool = False) -> None:
        """Read up to the first task, so that a source that cannot be read fails before a run is made.

        A strict one raises InvalidTask where already the first cannot be queued.
        """
        self._first = await anext(self._stream, None)
        if strict and self._first:
            try:
                Intake("", RunSettings()).entry(self._first)
            except InvalidTask as error:
                self.invalid(0, error)

    async def __aiter__(self) -> AsyncGenerator[Task]:
        if self._first:
            yield self._first
        async for task in self._stream:
            yield task
            if self._dead:
                await self._dead.flush(when_many=True)
        if self._dead:
            await self._dead.flush()

    def ids(self, run: Run) -> list[str | None]:
        """Return the ids that what was handed in as a list has in a run."""
        intake, first = Intake(run.id, run.settings), self._seeds.step or self._scraper.first.name
        return [
            _id(intake, self._routes, self._scraper.steps, task_of(one, first, self._scraper.steps))
            for _, stream in self._seeds.handed
            if isinstance(stream, Sequence)
            for one in stream
        ]


def _id(intake: Intake, routes: Routes, steps: Collection[str], task: Task | None) -> str | None:
    try:
        routed = routes.apply(task) if task else None
        return intake.entry(routed).id.hex() if routed and routed.step in steps else None
    except InvalidTask:
        return None


@asynccontextmanager
async def open_filling(
    queue: Queue,
    scraper: Scraper,
    seeds: Seeds,
    routes: Routes,
    *,
    on_invalid: OnInvalid = "skip",
    on_refusal: OnRefusal = lambda refusal: None,
    on_report: OnReport = lambda report: None,
) -> AsyncIterator[Filling]:
    """Yield the tasks of all sources, routed; what cannot be queued is told, then treated by the policy."""
    dead = DeadSeeds(queue) if on_invalid == "dead" else None

    def refuse(refusal: Refusal) -> None:
        on_refusal(refusal)
        if dead:
            dead.add(refusal)
        elif on_invalid == "raise":
            raise InvalidTask(refusal.text, f"{refusal.where}: {refusal.reason}")
        elif callable(on_invalid):
            on_invalid(refusal)

    async with seeds.feed(queue, scraper, routes, refuse, on_report) as feed:
        yield Filling(feed, scraper, seeds, routes, dead)


@dataclass(slots=True)
class Refusals:
    """Keeps the first few refusals, and writes all to a file if there is one."""

    first: list[Refusal] = field(default_factory=list)
    file: RejectFile | None = None

    def note(self, refusal: Refusal) -> None:
        """Take note of one."""
        if len(self.first) < MOST_TOLD:
            self.first.append(refusal)
        if self.file:
            self.file.write(refusal)


async def enter(
    queue: Queue, run: Run, filling: Filling, refusals: Refusals, known: Iterable[Task] = ()
) -> FillReport:
    """Stream the tasks of all sources into a run, and those of pages that are to be visited again."""
    report = await queue.enqueue(run.id, filling.into(run), on_invalid=filling.invalid)
    report += await queue.enqueue(run.id, known)
    return FillReport(
        added=report.added,
        duplicate=report.duplicate,
        known=report.known,
        invalid=filling.refused,
        refused=refusals.first,
        _name=lambda: filling.ids(run),
    )


async def fill(
    queue: Queue, job: Job, run: Run, routes: Routes, seeds: Seeds, *, on_invalid: OnInvalid = "skip"
) -> FillReport:
    """Enter the tasks of all sources into a run that is there; raises RunConflict if it cannot go on."""
    refusals = Refusals()
    # A run that has ended goes on, or says what is in the way: nobody would do what is added to it.
    run = await reopened(queue, await queue.run(run.id), job.scraper)
    opened = open_filling(queue, job.scraper, seeds, routes, on_invalid=on_invalid, on_refusal=refusals.note)
    async with opened as filling:
        return await enter(queue, run, filling, refusals)


def queued_row(job: Job, run: Run, report: EnqueueReport, invalid: int) -> dict[str, Any]:
    """Return the fields that `shoal enqueue --json` promises."""
    return {
        "status": "queued",
        "run_id": run.id,
        "enqueued": report.added,
        "duplicate": report.duplicate,
        "known": report.known,
        "invalid": invalid,
        "worker_command": worker_command(job, run.id),
    }


def filled_row(job: Job, run: Run, report: FillReport) -> dict[str, Any]:
    """Return the same with the first few that could not be queued."""
    told = [{"where": one.where, "text": one.text, "reason": one.reason} for one in report.refused]
    return {**queued_row(job, run, report, report.invalid), "refused": told}
