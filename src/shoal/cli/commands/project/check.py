"""`shoal check`: check everything a run needs."""

from typing import Annotated

import typer
import uvloop

from shoal.cli.commands.project.show import REFUSED, plugin_rows
from shoal.cli.configuration import current_config, current_project
from shoal.cli.console import put_rows, say
from shoal.cli.exits import Exit
from shoal.cli.options import common
from shoal.cli.options.workers import read_change
from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidInput, ShoalError
from shoal.fleet.status.doctor import CheckResult, CheckStatus, examine
from shoal.fleet.status.rows import TableColumns
from shoal.scrape.scraper import Scraper

CHECK_COLUMNS = TableColumns(("what", "health", "says"))


def check(
    scraper: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE[:NAME]|NAME]", help="Scraper to check; without it, all scrapers in shoal.toml."
        ),
    ] = None,
    proxies: common.Proxies = None,
    tokens: common.Tokens = None,
    partition_table: common.PartitionTable = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Check what a run needs: the scraper, the queue and what it can lose in a crash, this machine.

    Proxies, tokens and the partition table are the scraper's own unless you pass others.
    """
    subjects = load_with_changes(scraper, proxies, tokens)
    routes = current_config().project.routes

    async def looked() -> list[CheckResult]:
        found = examine(queue, *subjects, partition_table=partition_table, routes=routes)
        return [finding async for finding in found]

    findings = uvloop.run(looked())
    for one in plugin_rows():
        if one["state"] == REFUSED:
            says = f"the {one['kind']} {one['name']!r} of {one['package']} cannot be used: {one['says']}"
            findings.append(CheckResult("plugins", CheckStatus.POOR, says))
    put_rows(findings, CHECK_COLUMNS, as_json=as_json, nothing="")
    bad = [found for found in findings if found.health is CheckStatus.BAD]
    if bad and not as_json:
        say(f"Fix these first: {', '.join(found.what for found in bad)}.")
    raise typer.Exit(Exit.FAILED if bad else Exit.OK)


def load_with_changes(
    scraper: str | None, proxies: str | None, tokens: str | None
) -> "list[Scraper | ShoalError]":
    """Load the named scraper, or all of the project, with the typed settings; one that fails is its error."""
    project = current_project()
    names = [scraper] if scraper else list(project.scrapers)
    typed = {"proxies": proxies, "tokens": tokens}
    changes = dict(read_change(f"{name}={value}") for name, value in typed.items() if value is not None)
    if changes and not names:
        again = shoal_command("check FILE --proxies …")
        raise InvalidInput(f"--proxies and --tokens need a scraper. Run: {again}")
    found: list[Scraper | ShoalError] = []
    for name in names:
        try:
            found.append(project.load(name).scraper.replace(**changes))
        except ShoalError as error:
            found.append(error)
    return found
