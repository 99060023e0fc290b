"""The seeds of a run as one stream of tasks.

Every source is routed by the project's rules. A seed that cannot be queued is invalid: it is counted and
reported, and a policy says what becomes of it.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from itertools import chain
from typing import Literal, Self, get_args

from shoal.core.errors import InvalidInput, InvalidSetting, InvalidTask
from shoal.core.model import INVALID_SEED, MINUTE, Bury, Run, RunSettings, Task
from shoal.core.redact import bare_url, redacted
from shoal.core.values import counted, hint
from shoal.discover.feed import Feed
from shoal.discover.rejects import RejectFile
from shoal.discover.routing import Routes
from shoal.discover.sitemaps.report import SitemapReport
from shoal.discover.source import Refusal
from shoal.fleet.dead_workers import new_worker_id
from shoal.fleet.sources.declared import is_marked, mark_seeded, mark_seeding
from shoal.fleet.sources.seeds import OnReport, Seeds, task_of
from shoal.queue.contract import Queue, WorkQueue
from shoal.queue.intake import Intake
from shoal.scrape.scraper import Scraper

MAX_REPORTED = 10  # invalid seeds in a report, and lines about them
LINE_INTERVAL_SECONDS = 10.0  # between two lines while sources are read
BATCH = 500
log = logging.getLogger(__name__)
TRIES, RETRY_DELAY_SECONDS = 20, 0.05  # a broker takes a moment to hand out what was just enqueued

InvalidPolicy = Literal["skip", "dead", "raise"]
OnInvalid = InvalidPolicy | Callable[[Refusal], object]


def read_policy(key: str, value: str) -> InvalidPolicy:
    """Read the policy for seeds that cannot be queued."""
    for policy in get_args(InvalidPolicy):
        if value == policy:
            found: InvalidPolicy = policy
            return found
    raise InvalidSetting(key, f"cannot be {value!r}. {hint(value, get_args(InvalidPolicy))}")


def _described(seed: Refusal) -> str:
    text = "" if seed.text in seed.reason else f"{redacted(seed.text)!r}: "
    return f"{seed.where}: {text}{seed.reason}"


class InvalidSeeds:
    """Counts the invalid seeds and sources, keeps the first few, and applies the policy.

    All of them are written to the file `rejects`, if one is given. `say` gets a line about the first few, and
    about the sources while they are read; `on_source` gets each source instead, before it is read. Without
    `say` the first few are logged.
    """

    def __init__(
        self,
        policy: OnInvalid = "skip",
        *,
        rejects: str | None = None,
        say: Callable[[str], None] | None = None,
        on_source: OnReport | None = None,
    ) -> None:
        self.policy, self._rejects, self._say = policy, rejects, say or log.warning
        self.on_source = on_source or (self._watch if say else lambda report: None)
        self.first: list[Refusal] = []
        self.count = 0
        self.dead: DeadSeeds | None = None
        self._files, self._file = ExitStack(), None  # type: tuple[ExitStack, RejectFile | None]
        self._next_line = time.monotonic() + LINE_INTERVAL_SECONDS

    def __enter__(self) -> Self:
        self._file = self._files.enter_context(RejectFile(self._rejects)) if self._rejects else None
        return self

    def __exit__(self, *exc: object) -> None:
        self._files.close()

    def add(self, seed: Refusal) -> None:
        """Record an invalid seed; raises InvalidTask if the policy says so."""
        if self.count < MAX_REPORTED:
            self._say(f"Skipped {_described(seed)}")
        elif self.count == MAX_REPORTED:
            self._say("More seeds were skipped; the summary shows how many.")
        self._record(seed)

    def add_problems(self, report: SitemapReport) -> None:
        """Record what could not be read of a source: that is as bad as a seed that is no URL."""
        skipped = ", ".join(f"{count:,} {reason}" for reason, count in report.skipped.most_common())
        read = f"{counted(report.urls, 'URL')} in {counted(report.files, 'file')}"
        self._say(f"{report.source.capitalize()}s: {read}. {skipped}".strip())
        for problem in report.problems[:MAX_REPORTED]:
            self._say(f"  {problem.url}: {problem.reason}")
        self.count += report.unlisted
        for problem in report.problems:
            self._record(Refusal(report.source, problem.url, problem.reason))

    def _record(self, seed: Refusal) -> None:
        self.count += 1
        if len(self.first) < MAX_REPORTED:
            self.first.append(seed)
        if self._file:
            self._file.write(seed)
        if self.dead:
            self.dead.add(seed)
        if self.policy == "raise":
            raise InvalidTask(seed.text, _described(seed))
        if callable(self.policy):
            self.policy(seed)

    def check_not_all_skipped(self) -> None:
        """Raise InvalidInput if seeds were skipped: there were no others."""
        if self.count and self.policy == "skip":
            seed = self.first[0]
            raise InvalidInput(
                f"Nothing could be queued ({self.count:,} invalid), so no run was created. "
                f"{seed.where} {bare_url(seed.text)}: {seed.reason}"
            )

    def _watch(self, report: SitemapReport) -> None:
        report.on_file = self._say_progress

    def _say_progress(self, report: SitemapReport) -> None:
        """Say how far the walk is; a large tree takes hours, because files are fetched one by one."""
        now = time.monotonic()
        if now >= self._next_line:
            self._next_line = now + LINE_INTERVAL_SECONDS
            read = f"{counted(report.urls, 'URL')} in {counted(report.files, 'file')}"
            self._say(f"Reading {report.source}s: {read} so far, {report.pending + 1:,} to read.")


class RunFeed:
    """Streams the tasks of all sources: `queue.enqueue(run.id, feed.into(run), on_invalid=feed.invalid)`."""

    def __init__(
        self,
        queue: Queue,
        feed: Feed,
        scraper: Scraper,
        seeds: Seeds,
        routes: Routes,
        dead: "DeadSeeds | None" = None,
    ) -> None:
        self._queue = queue
        self._run: Run | None = None
        self._feed, self._scraper, self._seeds, self._routes, self._dead = feed, scraper, seeds, routes, dead
        self._stream: AsyncIterator[Task] = aiter(feed)
        self._first: Task | None = None

    def invalid(self, position: int, error: InvalidTask) -> None:
        """Record a task that the queue does not take."""
        self._feed.invalid(position, error)

    def into(self, run: Run) -> "RunFeed":
        """Set the target run; dead letters for invalid seeds go there too."""
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
async def open_feed(
    queue: Queue, scraper: Scraper, seeds: Seeds, routes: Routes, invalid: InvalidSeeds
) -> AsyncIterator[RunFeed]:
    """Yield the tasks of all sources, routed; the sources are closed at the end."""
    invalid.dead = dead = DeadSeeds(queue) if invalid.policy == "dead" else None
    async with AsyncExitStack() as stack:
        stack.enter_context(invalid)
        sources = seeds.feed(queue, scraper, routes, invalid.add, invalid.add_problems, invalid.on_source)
        feed = await stack.enter_async_context(sources)
        yield RunFeed(queue, feed, scraper, seeds, routes, dead)
    if dead:  # the sources report what they could not read when they are closed
        await dead.flush()


class DeadSeeds:
    """Stores invalid seeds as dead letters of the run, in batches: with their source, text and reason.

    A task with an invalid URL cannot be stored. So each becomes a task without a URL, of a step that no
    scraper has, which is claimed here and buried at once. A faster worker buries it with the same error.
    """

    def __init__(self, queue: WorkQueue) -> None:
        self.run: Run | None = None
        self._queue, self._me = queue, new_worker_id()
        self._waiting: list[Refusal] = []

    def add(self, seed: Refusal) -> None:
        """Add one; `flush` buries it."""
        self._waiting.append(seed)

    async def flush(self, *, when_many: bool = False) -> None:
        """Bury what was added; with `when_many`, only a full batch."""
        if self.run is None or len(self._waiting) < (BATCH if when_many else 1):
            return
        tasks = [
            Task(step=INVALID_SEED, payload={"where": one.where, "text": one.text, "reason": one.reason})
            for one in self._waiting
        ]
        self._waiting = []
        await self._bury(self.run.id, (await self._queue.enqueue(self.run.id, tasks)).added)

    async def _bury(self, run_id: str, left: int) -> None:
        for _ in range(TRIES):
            while left and (found := await self._claim(run_id)):
                await self._queue.settle(found)
                left -= len(found)
            if not left:
                return
            await asyncio.sleep(RETRY_DELAY_SECONDS)

    async def _claim(self, run_id: str) -> list[Bury]:
        grant = await self._queue.claim(
            self._me, run_id=run_id, limit=BATCH, lease=MINUTE, steps=[INVALID_SEED]
        )
        return [
            Bury(lease, InvalidTask(lease.task, str(lease.task.payload.get("reason"))))
            for lease in grant.leases
        ]
