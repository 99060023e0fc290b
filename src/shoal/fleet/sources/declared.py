"""The seeds that a scraper or its project declares, for runs for which none are typed."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from shoal.core.model import Task
from shoal.fleet.job import Job
from shoal.fleet.project.file import Project
from shoal.fleet.sources.names import seeds_of
from shoal.fleet.sources.private_hosts import allowed_private_hosts
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.seeding import TOPIC, seeding_value
from shoal.queue.contract import Queue, SharedNotes
from shoal.scrape.scraper import Scraper

NOTE_TTL = timedelta(days=365)


def declared_seeds(project: Project, job: Job) -> Seeds:
    """Return the seeds that the project file has for a scraper, else those of the scraper itself."""
    entry = project.scrapers.get(job.name)
    if entry and entry.seeds:
        seeds = seeds_of(entry)
        return replace(
            seeds,
            declared_in=entry.where,
            file=seeds.file and _within(project.folder, seeds.file),
            axes=[_axis_within(project.folder, axis) for axis in seeds.axes],
        )
    if job.scraper.has_seeds:
        return Seeds(declared_in=Path(job.reference.partition(":")[0]).name, of_scraper=True)
    return Seeds()


def start_urls(project: Project, name: str, scraper: Scraper) -> list[str]:
    """Return the URLs that are written down as seeds: in the project file, or in the scraper's `start`."""
    entry = project.scrapers.get(name)
    if entry and entry.seeds:
        return list(seeds_of(entry).urls)
    return [url for one in scraper.start if (url := one.url if isinstance(one, Task) else one)]


def declared_private_hosts(project: Project, name: str, scraper: Scraper) -> list[str]:
    """Return the private hosts that are allowed because seeds are declared there."""
    return list(allowed_private_hosts(start_urls(project, name, scraper)))


async def mark_seeding(queue: SharedNotes, run_id: str) -> None:
    """Record that declared seeds are being enqueued: a run that is resumed before the end starts over."""
    await queue.write_notes(TOPIC, {run_id: seeding_value()}, ttl=NOTE_TTL)


async def mark_seeded(queue: SharedNotes, run_id: str) -> None:
    """Record that all declared seeds of a run are enqueued."""
    await queue.write_notes(TOPIC, {run_id: None})


async def run_being_seeded(queue: Queue, scraper: str) -> str | None:
    """Return a scraper's newest unfinished run if the enqueueing of its declared seeds was interrupted.

    It may not have a single task yet.
    """
    if seeding := await queue.notes(TOPIC):
        for run in await queue.runs():
            if run.scraper == scraper and not run.state.has_ended:
                if run.id in seeding:
                    return run.id
                if (await queue.stats(run.id)).remaining:
                    return None
    return None


async def seeds_left(queue: Queue, run_id: str, seeds: Seeds) -> Seeds:
    """Return the seeds to enqueue when a run is resumed: declared ones only if that was interrupted.

    Those that are in the run already are duplicates, which are not added again.
    """
    if not seeds.declared_in or run_id in await queue.notes(TOPIC, [run_id]):
        return seeds
    return Seeds() if (await queue.stats(run_id)).tasks else seeds


def _within(folder: Path, file: str) -> str:
    return file if file == "-" or "://" in file else str(folder / file)


def _axis_within(folder: Path, axis: str) -> str:
    """Return an axis NAME=FILE with the file's path; NAME:a,b has none."""
    name, equals, file = axis.partition("=")
    return f"{name}={_within(folder, file)}" if equals and ":" not in name else axis
