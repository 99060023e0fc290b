"""`shoal route`: which rules of the project decide what for a URL."""

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import options
from shoal.cli.console import put_rows


def route(url: Annotated[str, typer.Argument(metavar="URL")], as_json: options.Json = False) -> None:
    """Show what the routes of shoal.toml decide for a URL, and which rule does so."""
    from shoal.fleet.project import Project

    rows = [
        {"rule": decision.rule, "sets": decision.field, "to": str(decision.value)}
        for decision in Project.find(Path.cwd()).routes.explain(url)
    ]
    nothing = "No rule matches. Rules stand in shoal.toml under [[routes]]."
    put_rows(rows, ("rule", "sets", "to"), as_json=as_json, nothing=nothing)
