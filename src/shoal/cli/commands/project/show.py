"""`shoal scrapers`, `config`, `route` and `plugins`: what the project and this installation have."""

from datetime import timedelta
from typing import Annotated, Any

import typer

from shoal.cli.configuration import current_config, current_project
from shoal.cli.options import common
from shoal.cli.registry import COMMAND_REGISTRY
from shoal.cli.tables import put_rows
from shoal.core.values import spelled
from shoal.export.exporters import EXPORTERS
from shoal.fleet.notify.channels import NOTIFIERS
from shoal.fleet.project.report import config_rows, setting_rows
from shoal.fleet.project.scrapers import ScraperRow, load
from shoal.fleet.sources.kinds import SOURCES
from shoal.fleet.status.rows.row import TableColumns
from shoal.queue.open import QUEUES
from shoal.registry.installed import installed_elsewhere
from shoal.registry.registry import Registry
from shoal.scrape.load import LOADERS
from shoal.worker.fetchers.chain import FETCHERS

READY, REFUSED = "ready", "refused"
PLUGIN_COLUMNS = TableColumns(
    ("kind", "name", "package", "version", "state", "gives", "says"), drops=("version", "gives")
)
NOTHING = "No plugins are installed. How to write one: docs/how-to/plugins.md"


def scrapers(as_json: common.Json = False) -> None:
    """List the scrapers of this project."""
    project = current_project()
    rows = [ScraperRow.load(entry, project.folder) for entry in project.scrapers.values()]
    nothing = (
        'No scrapers in this project yet. Add one to shoal.toml:  [scrapers.books]  module = "books.py:books"'
    )
    put_rows(rows, ScraperRow.columns, as_json=as_json, nothing=nothing)


def config(
    scraper: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE[:NAME]|NAME]", help="Show the settings of this scraper instead of the options."
        ),
    ] = None,
    as_json: common.Json = False,
) -> None:
    """Show the value of each option that the environment, .env or shoal.toml can set, and which of them does.

    A typed option overrides the environment, which overrides .env, then shoal.toml, then the scraper.

    Example: shoal config books
    """
    found = current_config()
    if scraper is None:
        rows = config_rows(found)
    else:
        rows = setting_rows(found, scraper, load(found.project, scraper))
    put_rows(rows, TableColumns(("setting", "value", "source")), as_json=as_json, nothing="")


def route(
    url: Annotated[str, typer.Argument(metavar="URL", help="URL to match against the routes.")],
    as_json: common.Json = False,
) -> None:
    """Show which routes of shoal.toml apply to a URL, and what they set."""
    rows = [
        {
            "rule": decision.rule,
            "sets": decision.field,
            "to": spelled(value) if isinstance(value := decision.value, timedelta) else str(value),
        }
        for decision in current_project().routes.explain(url)
    ]
    nothing = "No route matches. Add routes to shoal.toml under [[routes]]."
    put_rows(rows, TableColumns(("rule", "sets", "to")), as_json=as_json, nothing=nothing)


def plugins(as_json: common.Json = False) -> None:
    """List installed plugins, what they add, and why one cannot be used.

    Each is imported. A plugin cannot replace what Shoal has itself, and two cannot share a name.
    """
    put_rows(plugin_rows(), PLUGIN_COLUMNS, as_json=as_json, nothing=NOTHING)


def plugin_rows() -> list[dict[str, Any]]:
    """Return a row for each plugin; those of a group that Shoal does not have are refused too."""
    registries: list[Registry[Any]] = [
        QUEUES,
        EXPORTERS,
        SOURCES,
        FETCHERS,
        COMMAND_REGISTRY,
        LOADERS,
        NOTIFIERS,
    ]
    rows = [
        {
            "kind": registry.kind,
            "name": found.plugin.name,
            "package": found.plugin.package,
            "version": found.plugin.version,
            "state": REFUSED if found.problem else READY,
            "gives": _use(registry.kind, found.plugin.name),
            "says": found.problem,
        }
        for registry in registries
        for found in registry.plugins()
    ]
    known = [registry.group for registry in registries]
    for one in installed_elsewhere(known):
        says = f"there is no group {one.group!r}; there are {', '.join(known)}"
        rows.append(
            {
                "kind": one.group,
                "name": one.name,
                "package": one.package,
                "version": one.version,
                "state": REFUSED,
                "gives": "",
                "says": says,
            }
        )
    return rows


def _use(kind: str, name: str) -> str:
    """Return how a plugin is used."""
    return {
        "queue": f"--queue {name}://…",
        "exporter": f"--out FILE.{name} or {name}://…",
        "source": f"--source {name}:ADDRESS",
        "fetcher": f"fetch={name!r}",
        "command": f"shoal {name}",
        "loader": "shoal run FOLDER:NAME",
        "notifier": f"[notify.NAME] and kind = {name!r}",
    }[kind]
