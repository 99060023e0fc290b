"""From a scraper's name to the job of running it: the same for commands, programs and the JSON API."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from shoal.core.errors import InvalidSetting, ShoalError, UnknownScraper
from shoal.core.model import NOTHING, Run
from shoal.fleet.launch import MODES, Job
from shoal.fleet.project import Entry, Loaded, Project
from shoal.fleet.rows import scraper_row

# A file that is loaded changes the path on which modules are looked for.
_loading = Lock()
AGAIN_AFTER = 10.0  # seconds after a scraper could not be loaded


def load(project: Project, name: str) -> Loaded:
    """Load a scraper by its name in the project, or by its file or module; safe in several threads."""
    with _loading:
        return project.load(name)


def make_job(
    name: str,
    loaded: Loaded,
    *,
    queue_url: str,
    settings: Mapping[str, Any] = NOTHING,
    partitions: Sequence[str] | None = None,
    homes: Mapping[str, int] | None = None,
    **more: Any,
) -> Job:
    """Return the job of a scraper with some settings changed.

    `homes` are the partitions' workers by a table; without it the project's is kept to, unless partitions
    are named.
    """
    named = list(partitions) if partitions else None
    if homes is None:
        homes = NOTHING if named and not is_mode(named) else loaded.homes
    typed = dict(settings)
    return Job(
        scraper=loaded.scraper.replace(**typed),
        name=name,
        reference=loaded.reference,
        queue_url=queue_url,
        overrides=loaded.overrides | typed,
        typed=typed,
        partitions=read_partitions(named, bool(homes)),
        homes=dict(homes),
        **more,
    )


def is_mode(partitions: Sequence[str]) -> bool:
    """Tell whether partitions are a word by which they are shared out."""
    return list(partitions) in ([mode] for mode in MODES)


def read_partitions(partitions: list[str] | None, has_table: bool) -> list[str] | None:
    """Return the partitions, or the word by which they are shared out; a table means `auto` by itself."""
    if not has_table:
        return partitions
    if partitions and not is_mode(partitions):
        raise InvalidSetting(
            "--partition-table",
            "shares out all partitions; leave out --partitions, or say auto or exclusive there",
        )
    return partitions or ["auto"]


def project_job(
    project: Project, queue_url: str, name: str, settings: Mapping[str, Any] | None = None
) -> Job:
    """Return the job of a scraper by its name in the project; a file or module is no name here."""
    if name not in project.scrapers:
        raise UnknownScraper(name, list(project.scrapers))
    return make_job(name, load(project, name), queue_url=queue_url, settings=settings or NOTHING)


def job_of_run(project: Project, queue_url: str, run: Run) -> Job:
    """Return the job of the scraper that a run is of; raises UnknownScraper where the project lacks it."""
    for entry in sorted(project.scrapers.values(), key=lambda one: one.name != run.scraper):
        with suppress(ShoalError):
            if (job := project_job(project, queue_url, entry.name)).scraper.name == run.scraper:
                return job
    raise UnknownScraper(run.scraper, list(project.scrapers))


class ScraperRows:
    """The scrapers of a project as `shoal scrapers --json` has them; a file is loaded when it has changed."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._known: dict[str, _Known] = {}

    def all(self) -> list[dict[str, Any]]:
        """Return a row for each scraper; safe in several threads."""
        with _loading:
            return [self._row(entry) for entry in self._project.scrapers.values()]

    def _row(self, entry: Entry) -> dict[str, Any]:
        known, stamp = self._known.get(entry.name), _stamp(entry, self._project.folder)
        if known and known.stamp == stamp and time.monotonic() < known.until:
            return known.row
        row = scraper_row(entry, self._project.folder)
        # What is wrong with a file may be mended elsewhere: in a module that it imports.
        until = time.monotonic() + AGAIN_AFTER if row["says"] else float("inf")
        self._known[entry.name] = _Known(stamp, until, row)
        return row


class _Known(NamedTuple):
    stamp: tuple[int, int] | None
    until: float
    row: dict[str, Any]


def _stamp(entry: Entry, folder: Path) -> tuple[int, int] | None:
    """Return what tells a file from its next version; None for a module, which is imported once anyway."""
    place = entry.reference(folder)
    path = Path(place) if place.endswith(".py") else Path(place.rpartition(":")[0])
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
