"""`shoal scrapers`: what the project file names."""

from pathlib import Path

from shoal.cli import options
from shoal.cli.console import put_rows


def scrapers(as_json: options.Json = False) -> None:
    """List the scrapers of this project."""
    from shoal.fleet.project import Project
    from shoal.fleet.rows import scraper_row

    project = Project.find(Path.cwd())
    rows = [scraper_row(entry, project.folder) for entry in project.scrapers.values()]
    nothing = (
        'No scrapers are named here. Write into shoal.toml:  [scrapers.books]  module = "books.py:books"'
    )
    put_rows(rows, ("name", "module", "mode", "steps", "says"), as_json=as_json, nothing=nothing)
