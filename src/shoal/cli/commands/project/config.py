"""`shoal config`: the values that options and settings have, and where they come from."""

from typing import Annotated

import typer

from shoal.cli.configuration import current_config
from shoal.cli.console import put_rows
from shoal.cli.options import common
from shoal.fleet.build_job import load
from shoal.fleet.project.report import config_rows, setting_rows
from shoal.fleet.status.rows import TableColumns


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
