"""The scrapers that a project names: loaded with its settings, and described."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Self

from shoal.core.errors import InvalidSetting, ShoalError
from shoal.core.model import NOTHING
from shoal.fleet.project.file import Project, ProjectScraper
from shoal.fleet.status.rows.row import Row, TableColumns
from shoal.scrape.load import load_scraper
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.scraper import SETTINGS, ScraperSettings
from shoal.worker.partitions import PartitionMode

RELOAD_INTERVAL_SECONDS = 10.0  # between two attempts to load a broken scraper
_loading = Lock()  # loading a file changes the module search path


class LoadedScraper(NamedTuple):
    """A scraper, where workers of this machine load it from, and the settings that the project changes."""

    scraper: Scraper
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
    with _loading:
        return _load_by_name(project, name)


def _load_by_name(project: Project, name: str) -> LoadedScraper:
    entry = project.entry(name)
    if entry is None:
        return LoadedScraper(load_scraper(name), name, {}, mode=project.partition_mode)
    scraper, reference = load_entry(entry, project.folder), entry.reference(project.folder)
    overrides, mode = scraper.group_settings(entry.overrides), project.partition_mode
    return LoadedScraper(scraper, reference, overrides, entry.homes, entry.args, mode)


@dataclass(kw_only=True)
class ScraperRow(Row):
    """A project scraper; `says` is why it cannot be loaded."""

    columns = TableColumns(("name", "module", "mode", "steps", "says"))
    name: str
    module: str
    mode: str | None = None
    steps: str | None = None
    says: str | None = None
    scraper: str | None = None  # the name that its runs have
    settings: dict[str, Any] | None = None  # that differ from the defaults; durations in seconds
    seeded: bool | None = None  # whether the project or the scraper declares seeds
    args: list[str] | None = None  # the names of its arguments

    @classmethod
    def load(cls, entry: ProjectScraper, folder: Path) -> Self:
        """Load a scraper of the project and describe it."""
        try:
            scraper = load_entry(entry, folder)
        except ShoalError as error:
            return cls(name=entry.name, module=entry.module, says=str(error))
        return cls(
            name=entry.name,
            module=entry.module,
            mode=scraper.settings.mode,
            steps=", ".join(scraper.steps),
            scraper=scraper.name,
            settings=changed_settings(scraper.settings),
            seeded=bool(entry.seeds) or scraper.has_seeds,
            args=list(scraper.declared_args.names),
        )


def changed_settings(settings: ScraperSettings) -> dict[str, Any]:
    """Return the settings that differ from the defaults, without those that may contain a secret."""
    default = type(settings)()
    found = {name: getattr(settings, name) for name, one in SETTINGS.items() if one.shown}
    return {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in found.items()
        if value != getattr(default, name)
    }


class ScraperRows:
    """The scrapers of a project as in `shoal scrapers --json`; a file is reloaded when it changes."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._known: dict[str, _KnownScraper] = {}

    def all(self) -> list[ScraperRow]:
        """Return a row for each scraper; safe in several threads."""
        with _loading:
            return [self._row(entry) for entry in self._project.scrapers.values()]

    def name_of(self, scraper: str) -> str | None:
        """Return the project's name for a run's scraper, if `all` has loaded it."""
        rows = [known.row for known in self._known.values()]
        return next((row.name for row in rows if row.scraper == scraper), None)

    def _row(self, entry: ProjectScraper) -> ScraperRow:
        known, stamp = self._known.get(entry.name), _stamp(entry, self._project.folder)
        if known and known.stamp == stamp and time.monotonic() < known.until:
            return known.row
        row = ScraperRow.load(entry, self._project.folder)
        # A broken file may be fixed elsewhere: in a module that it imports.
        until = time.monotonic() + RELOAD_INTERVAL_SECONDS if row.says else float("inf")
        self._known[entry.name] = _KnownScraper(stamp, until, row)
        return row


class _KnownScraper(NamedTuple):
    stamp: tuple[int, int] | None
    until: float
    row: ScraperRow


def _stamp(entry: ProjectScraper, folder: Path) -> tuple[int, int] | None:
    """Return the modification time and size of a file; None for a module, which is imported once anyway."""
    reference = entry.reference(folder)
    path = Path(reference) if reference.endswith(".py") else Path(reference.rpartition(":")[0])
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
