"""`shoal scrapers`: what the project file names."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.cli import options
from shoal.cli.console import put_rows
from shoal.core.errors import ShoalError

if TYPE_CHECKING:
    from shoal.fleet.project import Entry


def scrapers(as_json: options.Json = False) -> None:
    """List the scrapers of this project."""
    from shoal.fleet.project import Project

    project = Project.find(Path.cwd())
    rows = [_row(entry, project.folder) for entry in project.scrapers.values()]
    nothing = (
        'No scrapers are named here. Write into shoal.toml:  [scrapers.books]  module = "books.py:books"'
    )
    put_rows(rows, ("name", "module", "mode", "steps", "says"), as_json=as_json, nothing=nothing)


def _row(entry: "Entry", folder: Path) -> dict[str, Any]:
    row = {"name": entry.name, "module": entry.module, "mode": None, "steps": None, "says": None}
    try:
        scraper = entry.load(folder)
        return row | {"mode": scraper.settings.mode, "steps": ", ".join(scraper.steps)}
    except ShoalError as error:
        return row | {"says": str(error)}
