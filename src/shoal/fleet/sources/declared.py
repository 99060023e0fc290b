"""The seeds that a scraper or its project declares, for runs for which none are typed."""

import logging
import re
from collections.abc import Sequence
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from shoal.core.model import Task
from shoal.fleet.job import Job
from shoal.fleet.project.file import Project
from shoal.fleet.sources.names import allowed_private_hosts, read_seeds, seeds_of
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.seeding import TOPIC, interrupted_sources, seeding_value
from shoal.queue.contract import Queue, SharedNotes
from shoal.scrape.scraper import Scraper

log = logging.getLogger(__name__)
NOTE_TTL = timedelta(days=365)
SECRET = re.compile(r"//[^/?#]*@")  # a user and password in an address


def declared_seeds(project: Project, job: Job) -> Seeds:
    """Return the seeds that the project file has for a scraper, else those of the scraper itself."""
    entry = project.scrapers.get(job.name)
    if entry and entry.seeds:
        return declared_in(project, seeds_of(entry), entry.where)
    if job.scraper.has_seeds:
        return Seeds(declared_in=Path(job.reference.partition(":")[0]).name, of_scraper=True)
    return Seeds()


def declared_in(project: Project, seeds: Seeds, where: str) -> Seeds:
    """Return seeds that are declared there, whose files are in the project's folder."""
    return replace(
        seeds,
        declared_in=where,
        file=seeds.file and within(project.folder, seeds.file),
        axes=[_axis_within(project.folder, axis) for axis in seeds.axes],
    )


def declared_private_hosts(
    project: Project, name: str, scraper: Scraper, more: Sequence[str] = ()
) -> list[str]:
    """Return the private hosts that are allowed because seeds are declared there, or these `more` are."""
    entry = project.scrapers.get(name)
    if entry and entry.seeds:
        urls = list(seeds_of(entry).addresses)
    else:
        urls = [url for one in scraper.start if (url := one.url if isinstance(one, Task) else one)]
    return list(allowed_private_hosts([*urls, *more]))


def is_marked(seeds: Seeds) -> bool:
    """Return whether it is recorded that these seeds are being enqueued: not for a few typed URLs."""
    return bool(seeds.declared_in or seeds.file or seeds.template or seeds.axes or seeds.by_kind())


async def mark_seeding(queue: SharedNotes, run_id: str, seeds: Seeds) -> None:
    """Record that seeds are being enqueued: a run that is resumed before the end reads them again."""
    value = seeding_value() if seeds.declared_in else _typed_value(seeds)
    await queue.write_notes(TOPIC, {run_id: value}, ttl=NOTE_TTL)


def _typed_value(seeds: Seeds) -> bytes:
    """Return the note for typed sources, with paths and times that mean the same elsewhere and later."""
    if seeds.file == "-":
        return seeding_value(lost="standard input")
    if any(SECRET.search(text) for text in chain(*(texts for _, texts, _ in seeds.by_kind()))):
        return seeding_value(lost="a source whose address has a password")
    named = named_from_anywhere(seeds)
    if seeds.since:
        named["since"] = seeds.since.isoformat()
    return seeding_value(named)


def named_from_anywhere(seeds: Seeds) -> dict[str, Any]:
    """Return the sources by name, with paths that mean the same in another folder."""
    named, here = dict(seeds.named or {}), Path.cwd()
    if seeds.file:
        named["urls_file"] = within(here, seeds.file)
    if seeds.axes:
        named["axis"] = [_axis_within(here, axis) for axis in seeds.axes]
    return named


async def mark_seeded(queue: SharedNotes, run_id: str) -> None:
    """Record that all seeds of a run are enqueued."""
    await queue.write_notes(TOPIC, {run_id: None})


async def run_being_seeded(queue: Queue, scraper: str) -> str | None:
    """Return a scraper's newest unfinished run if the enqueueing of its seeds was interrupted.

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
    """Return the seeds to enqueue when a run is resumed: those typed now, else what was interrupted.

    Those that are in the run already are duplicates, which are not added again. What cannot be read again is
    logged, and the run goes on without it.
    """
    if seeds and not seeds.declared_in:
        return seeds
    interrupted = await interrupted_sources(queue, run_id)
    if interrupted and interrupted.sources is not None:
        return read_seeds(interrupted.sources)
    if interrupted and interrupted.lost:
        log.warning(
            "Reading %s was interrupted when run %s was filled, and cannot be repeated: the run goes on with "
            "the tasks that it has. To add the others, pass the source again with --resume %s",
            interrupted.lost,
            run_id,
            run_id,
        )
        await mark_seeded(queue, run_id)
        return Seeds()
    if interrupted or not seeds:
        return seeds
    return Seeds() if (await queue.stats(run_id)).tasks else seeds


def within(folder: Path, file: str) -> str:
    """Return the path of a file that is named in a folder; standard input and addresses stay as they are."""
    return file if file == "-" or "://" in file else str(folder / file)


def _axis_within(folder: Path, axis: str) -> str:
    """Return an axis NAME=FILE with the file's path; NAME:a,b has none."""
    name, equals, file = axis.partition("=")
    return f"{name}={within(folder, file)}" if equals and ":" not in name else axis
