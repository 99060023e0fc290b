"""`shoal route`: which routes of the project apply to a URL."""

from datetime import timedelta
from typing import Annotated

import typer

from shoal.cli.configuration import current_project
from shoal.cli.console import put_rows
from shoal.cli.options import common
from shoal.core.values import spelled
from shoal.fleet.status.rows import TableColumns


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
