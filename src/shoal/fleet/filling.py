"""Filling a run with URLs and tasks that somebody hands in, for a scraper that the project names."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import Any

from shoal.core.errors import ShoalError, UnknownScraper
from shoal.core.model import EnqueueReport, Run, Task
from shoal.discover.feed import Feed
from shoal.discover.routing import Routes
from shoal.discover.source import Refusal
from shoal.fleet.launch import Job
from shoal.fleet.project import Entry, Project
from shoal.fleet.retyping import worker_command
from shoal.fleet.rows import scraper_row
from shoal.queue.contract import Queue
from shoal.scrape.scraper import SEED_STEP

MOST_TOLD = 10  # refusals

# A file that is loaded changes the path on which modules are looked for.
_loading = Lock()


def project_job(
    project: Project, queue_url: str, name: str, settings: Mapping[str, Any] | None = None
) -> Job:
    """Return the job of a scraper by its name in the project; a file or module is no name here."""
    if name not in project.scrapers:
        raise UnknownScraper(name, list(project.scrapers))
    entry, changes = project.scrapers[name], dict(settings or {})
    with _loading:
        scraper = entry.load(project.folder).replace(**changes)
    return Job(
        scraper=scraper,
        name=name,
        reference=entry.reference(project.folder),
        queue_url=queue_url,
        overrides=dict(entry.overrides) | changes,
        typed=changes,
    )


def job_of_run(project: Project, queue_url: str, run: Run) -> Job:
    """Return the job of the scraper that a run is of; raises UnknownScraper where the project lacks it."""
    for entry in sorted(project.scrapers.values(), key=lambda one: one.name != run.scraper):
        with suppress(ShoalError):
            if (job := project_job(project, queue_url, entry.name)).scraper.name == run.scraper:
                return job
    raise UnknownScraper(run.scraper, list(project.scrapers))


def loaded_rows(project: Project) -> list[dict[str, Any]]:
    """Return the scrapers of a project as `shoal scrapers --json` has them."""

    def row(entry: Entry) -> dict[str, Any]:
        with _loading:
            return scraper_row(entry, project.folder)

    return [row(entry) for entry in project.scrapers.values()]


def queued_row(job: Job, run: Run, report: EnqueueReport, invalid: int) -> dict[str, Any]:
    """Return the fields that `shoal enqueue --json` promises."""
    return {
        "status": "queued",
        "run_id": run.id,
        "enqueued": report.added,
        "duplicate": report.duplicate,
        "invalid": invalid,
        "worker_command": worker_command(job, run.id),
    }


async def fill(
    queue: Queue, job: Job, run: Run, routes: Routes, urls: Sequence[str], tasks: Sequence[Task]
) -> dict[str, Any]:
    """Enter URLs and tasks into a run; what cannot be queued is counted, and the first few are told."""
    refused: list[Refusal] = []
    first = job.scraper.first.name

    def note(refusal: Refusal) -> None:
        if len(refused) < MOST_TOLD:
            refused.append(refusal)

    feed = Feed(
        _Listed("urls", (Task(url=url, step=first) for url in urls), first),
        _Listed("tasks", tasks, first),
        routes=routes,
        steps=job.scraper.steps,
        on_refusal=note,
    )
    report = await queue.enqueue(run.id, feed, on_invalid=feed.invalid)
    told = [{"where": one.where, "text": one.text, "reason": one.reason} for one in refused]
    return {**queued_row(job, run, report, feed.refused), "refused": told}


class _Listed:
    """A source: what was handed in as a list."""

    def __init__(self, name: str, tasks: Iterable[Task], first: str) -> None:
        self._name, self._tasks, self._first = name, tasks, first
        self.where = name

    def __iter__(self) -> Iterator[Task]:
        for number, task in enumerate(self._tasks):
            self.where = f"{self._name}[{number}]"
            yield replace(task, step=self._first) if task.step == SEED_STEP else task
