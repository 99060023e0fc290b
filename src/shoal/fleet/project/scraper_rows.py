"""The rows of the scrapers of a project."""

import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

from shoal.core.errors import ShoalError
from shoal.fleet.project.file import Project, ProjectScraper
from shoal.fleet.project.scrapers import load_entry, loading
from shoal.fleet.status.rows.row import Row, TableColumns
from shoal.scrape.settings.scraper import SETTINGS, ScraperSettings

RELOAD_INTERVAL_SECONDS = 10.0  # between two attempts to load a broken scraper


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
        with loading:
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
