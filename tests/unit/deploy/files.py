"""What the files in `deploy/` say, and every command that they run."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.unit.docs.commands import mentioned

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
PAGE = ROOT / "docs" / "how-to" / "deploy.md"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "shoal.json"
# Grafana puts values in place of these; what they are does not change how a query is read.
VARIABLES = {"$__rate_interval": "1m", "$scraper": ".*"}


class Command(NamedTuple):
    """A command of Shoal, and the file that runs or shows it."""

    where: str
    words: tuple[str, ...]


def documents(path: Path) -> list[Any]:
    """Return the documents of a YAML file."""
    return [found for found in yaml.safe_load_all(path.read_text()) if found is not None]


@cache
def manifests() -> list[tuple[str, dict[str, Any]]]:
    """Return every Kubernetes object, and the file that has it."""
    files = sorted((DEPLOY / "kubernetes").rglob("*.yaml"))
    return [
        (file.name, found) for file in files if file.name != "kustomization.yaml" for found in documents(file)
    ]


def manifest(kind: str, name: str) -> dict[str, Any]:
    """Return the Kubernetes object of this kind and name."""
    (found,) = [
        one
        for _, one in manifests()
        if one["kind"] == kind and name in (one["metadata"].get("name"), one["metadata"].get("generateName"))
    ]
    return found


def pods() -> dict[str, dict[str, Any]]:
    """Return what each kind of pod is made of, by the name of its owner."""
    owners = [one for _, one in manifests() if "template" in one.get("spec", {})]
    return {
        one["metadata"].get("name") or one["metadata"]["generateName"].rstrip("-"): one["spec"]["template"]
        for one in owners
    }


def compose(name: str = "compose.yaml") -> dict[str, Any]:
    """Return a Compose file."""
    (found,) = documents(DEPLOY / "compose" / name)
    assert isinstance(found, dict)
    return found


def rules() -> list[dict[str, Any]]:
    """Return the alerts."""
    (found,) = documents(ALERTS)
    return [rule for group in found["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard."""
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def queries() -> dict[str, str]:
    """Return everything that Prometheus is asked, by where it stands."""
    found = {rule["alert"]: rule["expr"] for rule in rules()}
    for panel in panels():
        for target in panel["targets"]:
            found[f"{panel['title']} {target['refId']}"] = _filled(target["expr"])
    return found


def commands() -> Iterator[Command]:
    """Yield every command of Shoal that the files run, and that they tell people to type."""
    for name, service in compose()["services"].items():
        yield from _run(f"compose: {name}", service.get("command", []))
    for name, pod in pods().items():
        yield from _run(f"kubernetes: {name}", pod["spec"]["containers"][0].get("args", []))
    task = json.loads((DEPLOY / "ecs" / "task-definition.json").read_text())
    for container in task["containerDefinitions"]:
        yield from _run(f"ecs: {container['name']}", container["command"])
    for file in (PAGE, ALERTS, *sorted((DEPLOY / "compose").glob("*.yaml"))):
        for words in mentioned(file.read_text()):
            yield Command(file.name, words)


def _run(where: str, words: list[str]) -> Iterator[Command]:
    if words and words[0] == "shoal":
        yield Command(where, tuple(words))


def _filled(expr: str) -> str:
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    return expr
