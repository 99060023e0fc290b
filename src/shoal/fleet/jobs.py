"""From a scraper's name to the job of running it: the same for commands, programs and the JSON API."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from shoal.core.errors import InvalidSetting, ShoalError, UnknownScraper
from shoal.core.model import NOTHING, Run
from shoal.fleet.launch import MODES, Job
from shoal.fleet.project import Entry, Loaded, Project
from shoal.fleet.rows import scraper_row

# A file that is loaded changes the path on which modules are looked for.
_loading = Lock()


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


def loaded_rows(project: Project) -> list[dict[str, Any]]:
    """Return the scrapers of a project as `shoal scrapers --json` has them."""

    def row(entry: Entry) -> dict[str, Any]:
        with _loading:
            return scraper_row(entry, project.folder)

    return [row(entry) for entry in project.scrapers.values()]
