"""`shoal plugins`: list what installed packages add to Shoal."""

from typing import Any

from shoal.cli.console import put_rows
from shoal.cli.options import common
from shoal.cli.registry import COMMAND_REGISTRY
from shoal.export.exporters import EXPORTERS
from shoal.fleet.sources.kinds import SOURCES
from shoal.fleet.status.rows import TableColumns
from shoal.queue.open import QUEUES
from shoal.registry.installed import installed_elsewhere
from shoal.registry.registry import Registry
from shoal.worker.fetchers.named import FETCHERS

READY, REFUSED = "ready", "refused"
COLUMNS = TableColumns(
    ("kind", "name", "package", "version", "state", "gives", "says"), drops=("version", "gives")
)
NOTHING = "No plugins are installed. How to write one: docs/how-to/plugins.md"


def plugins(as_json: common.Json = False) -> None:
    """List installed plugins, what they add, and why one cannot be used.

    Each is imported. A plugin cannot replace what Shoal has itself, and two cannot share a name.
    """
    put_rows(plugin_rows(), COLUMNS, as_json=as_json, nothing=NOTHING)


def plugin_rows() -> list[dict[str, Any]]:
    """Return a row for each plugin; those of a group that Shoal does not have are refused too."""

    registries = _registries()
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


def _registries() -> "list[Registry[Any]]":
    return [QUEUES, EXPORTERS, SOURCES, FETCHERS, COMMAND_REGISTRY]


def _use(kind: str, name: str) -> str:
    """Return how a plugin is used."""
    return {
        "queue": f"--queue {name}://…",
        "exporter": f"--out FILE.{name} or {name}://…",
        "source": f"--source {name}:ADDRESS",
        "fetcher": f"fetch={name!r}",
        "command": f"shoal {name}",
    }[kind]
