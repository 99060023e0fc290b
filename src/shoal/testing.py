"""For the tests of your scraper: pages without a network, steps without a queue, runs from a recording."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.exchange import Headers, Response
from shoal.core.model import (
    MINUTE,
    NOTHING,
    ZERO,
    Bury,
    Done,
    Lease,
    Reject,
    Retry,
    Run,
    RunState,
    Task,
    error_text,
)
from shoal.core.urls import canonical
from shoal.export.warc_read import WarcRecord
from shoal.fetch.replay import ReplayFetcher
from shoal.fetch.robots import Robots
from shoal.queue.intake import Intake, decode, encode_item
from shoal.scrape.harvest import Harvest
from shoal.scrape.page import Page
from shoal.scrape.scraper import SEED_STEP, Scraper
from shoal.scrape.step import Step
from shoal.worker.handling import Handling, Tools
from shoal.worker.marks import CELLS, Marks, make_file
from shoal.worker.places import Places
from shoal.worker.room import Room
from shoal.worker.stock import Start
from shoal.worker.tally import Tally

MOST_TASKS = 100_000


def page(
    content: str | bytes,
    *,
    url: str = "https://example.com/",
    status: int = 200,
    headers: Mapping[str, str] = NOTHING,
    payload: Mapping[str, Any] = NOTHING,
) -> Page:
    """Return a page that was never fetched; text is HTML in UTF-8 unless the headers say otherwise."""
    fields = {"content-type": "text/html; charset=utf-8"} if isinstance(content, str) else {}
    body = content.encode() if isinstance(content, str) else content
    address = canonical(url)
    answer = Response(url=address, status=status, headers=Headers({**fields, **headers}.items()), body=body)
    return Page(answer, Task(url=address, payload=payload))


async def run_step(step: Step, subject: Page | Task) -> Harvest:
    """Run one step on a page or a task; return what it gives, or raise what it raises."""
    if isinstance(subject, Page) and subject.task.step == SEED_STEP:
        subject = Page(subject.response, replace(subject.task, step=step.name))
    if step.is_async:
        return await step.harvest_async(subject)
    return await asyncio.to_thread(step.harvest, subject)


@dataclass(frozen=True, slots=True)
class Failure:
    """A task that came to nothing, and why."""

    task: Task
    error: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a run on a recording gave."""

    items: list[Any] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)  # that were handled, in order
    failures: list[Failure] = field(default_factory=list)


def replay(
    scraper: Scraper,
    recording: str | Path,
    *,
    urls: Iterable[str] = (),
    tasks: Iterable[Task] = (),
    most: int = MOST_TASKS,
) -> Replayed:
    """Run a scraper on a recording of `shoal run --warc`, task by task, and ask nobody.

    It begins with the URLs and tasks given, else with the first page that was recorded.
    """
    first = scraper.first.name
    seeds = [*tasks, *(Task(url=url, step=first) for url in urls)]
    # In a thread of its own, where no loop runs yet: the caller may be inside one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_replay(scraper, recording, seeds, most))).result()


async def _replay(scraper: Scraper, recording: str | Path, seeds: list[Task], most: int) -> Replayed:
    scraper = scraper.replace(replay=recording)
    record = WarcRecord(recording, most=scraper.settings.max_body)
    if not seeds and record.first:
        seeds = [Task(url=record.first, step=scraper.first.name)]
    async with _open(scraper, record) as rehearsal:
        for task in seeds:
            rehearsal.add(task)
        await rehearsal.play(most)
        return rehearsal.gave


@asynccontextmanager
async def _open(scraper: Scraper, record: WarcRecord) -> AsyncIterator["_Rehearsal"]:
    fetcher = ReplayFetcher(record.find, record=record.name)
    robots = Robots(fetcher, scraper.settings.user_agent or "shoal") if scraper.settings.robots else None
    file = make_file()
    marks = Marks(file)
    os.close(file)
    with ThreadPoolExecutor(CELLS - 1) as threads:
        try:
            yield _Rehearsal(scraper, Tools({"http": fetcher}, robots, threads, marks))
        finally:
            marks.close()


class _Rehearsal:
    """A run without a queue: every task once, in the order in which they were found."""

    def __init__(self, scraper: Scraper, tools: Tools) -> None:
        run = Run(
            id="replay",
            scraper=scraper.name,
            settings=scraper.run_settings(),
            state=RunState.RUNNING,
            started_at=datetime.now(UTC),
        )
        self.gave = Replayed()
        self._intake = Intake(run.id, run.settings)
        places = Places(1, 0, lambda: None)
        self._handling = Handling(
            scraper, run, tools, Tally(), in_time=lambda start: True, room=Room(), places=places
        )
        self._waiting: deque[Lease] = deque()
        self._seen: set[bytes] = set()

    def add(self, task: Task) -> None:
        """Let a task enter, unless its like has; raises InvalidTask."""
        entry = self._intake.entry(task)
        if entry.id in self._seen:
            return
        self._seen.add(entry.id)
        self._waiting.append(
            Lease(
                run_id="replay",
                task_id=entry.id.hex(),
                token=1,
                task=replace(task, url=entry.url),
                attempt=1,
                start_in=ZERO,
                deadline_in=MINUTE,
            )
        )

    async def play(self, most: int) -> None:
        """Handle what waits until nothing does; raises InvalidSetting when that is too much."""
        while self._waiting:
            if len(self.gave.tasks) >= most:
                raise InvalidSetting(
                    "most", f"allows {most:,} tasks, and the replay has more. Raise it: most=…"
                )
            lease = self._waiting.popleft()
            self.gave.tasks.append(lease.task)
            outcome = await self._handling.outcome(Start(lease, 0.0), len(self.gave.tasks))
            if isinstance(outcome, Done):
                self._take(outcome)
            elif isinstance(outcome, Retry | Bury):
                self.gave.failures.append(Failure(lease.task, error_text(outcome.error)))

    def _take(self, done: Done) -> None:
        """Take in what a task gave, all of it or, where the queue would refuse a part, nothing."""
        try:
            items = [decode(encode_item(item)) for item in done.items]
            for task in done.follow:
                self._intake.entry(task)
        except InvalidInput as error:
            self.gave.failures.append(Failure(done.lease.task, error_text(error)))
            return
        self.gave.items.extend(items)
        self.gave.rejects.extend(done.rejects)
        for task in done.follow:
            self.add(task)
