"""Loads the scrapers that a project names, with its settings."""

from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from shoal.core.errors import InvalidSetting
from shoal.core.model import NOTHING
from shoal.fleet.project.file import Project, ProjectScraper
from shoal.scrape.load import load_scraper
from shoal.scrape.scraper import Scraper
from shoal.worker.partitions import PartitionMode

loading = Lock()  # loading a file changes the module search path


class LoadedScraper(NamedTuple):
    """A scraper, where workers of this machine load it from, and the settings that the project changes."""

    scraper: "Scraper"
    reference: str
    overrides: dict[str, Any]
    homes: Mapping[str, int] = NOTHING
    args: Mapping[str, Any] = NOTHING
    mode: PartitionMode | None = None  # how the project's workers share all partitions


def load_entry(entry: ProjectScraper, folder: Path) -> Scraper:
    """Load a scraper with the project's settings; an error names the file and the key."""
    scraper = load_scraper(entry.reference(folder))
    try:
        scraper.declared_args.check(entry.args)
        return scraper.replace(**scraper.group_settings(entry.overrides))
    except InvalidSetting as error:
        raise InvalidSetting(f"{entry.where}: scrapers.{entry.name}.{error.key}", error.reason) from error


def load(project: Project, name: str) -> LoadedScraper:
    """Load a scraper by its name in the project, or by its file or module; safe in several threads."""
    with loading:
        return _load_by_name(project, name)


def _load_by_name(project: Project, name: str) -> LoadedScraper:
    entry = project.entry(name)
    if entry is None:
        return LoadedScraper(load_scraper(name), name, {}, mode=project.partition_mode)
    scraper = load_entry(entry, project.folder)
    return LoadedScraper(
        scraper,
        entry.reference(project.folder),
        dict(entry.overrides),
        entry.homes,
        entry.args,
        project.partition_mode,
    )
