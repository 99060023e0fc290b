"""`shoal scrapers`: list the scrapers of the project file."""

from shoal.cli.configuration import current_project
from shoal.cli.console import put_rows
from shoal.cli.options import common
from shoal.fleet.status.rows import ScraperRow


def scrapers(as_json: common.Json = False) -> None:
    """List the scrapers of this project."""

    project = current_project()
    rows = [ScraperRow.load(entry, project.folder) for entry in project.scrapers.values()]
    nothing = (
        'No scrapers in this project yet. Add one to shoal.toml:  [scrapers.books]  module = "books.py:books"'
    )
    put_rows(rows, ScraperRow.columns, as_json=as_json, nothing=nothing)
