"""`shoal check`: check everything a run needs."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.console import put_rows, say
from shoal.cli.exits import Exit
from shoal.cli.options import common

if TYPE_CHECKING:
    from shoal.scrape.scraper import Scraper


def check(
    scraper: Annotated[
        str | None, typer.Argument(metavar="[FILE[:NAME]]", help="Scraper to check as well.")
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
    import uvloop

    from shoal.cli.commands.project.plugins import REFUSED, plugin_rows
    from shoal.cli.configuration import current_config
    from shoal.fleet.status.doctor import CheckResult, CheckStatus, examine

    subject = apply_changes(scraper, proxies, tokens)

    async def looked() -> list[CheckResult]:
        routes = current_config().project.routes
        return [finding async for finding in examine(queue, subject, partition_table, routes)]

    findings = uvloop.run(looked())
    for one in plugin_rows():
        if one["state"] == REFUSED:
            says = f"the {one['kind']} {one['name']!r} of {one['package']} cannot be used: {one['says']}"
            findings.append(CheckResult("plugins", CheckStatus.POOR, says))
    rows = [{"what": found.what, "health": str(found.health), "says": found.says} for found in findings]
    put_rows(rows, ("what", "health", "says"), as_json=as_json, nothing="")
    bad = [found for found in findings if found.health is CheckStatus.BAD]
    if bad and not as_json:
        say(f"Fix these first: {', '.join(found.what for found in bad)}.")
    raise typer.Exit(Exit.FAILED if bad else Exit.OK)


def apply_changes(scraper: str | None, proxies: str | None, tokens: str | None) -> "str | Scraper | None":
    """Return the scraper's name, or the scraper loaded with the typed settings."""
    from shoal.cli.options.job import read_job
    from shoal.core.errors import InvalidInput
    from shoal.core.errors.commands import shoal_command

    changes = [*common.setting("proxies", proxies), *common.setting("tokens", tokens)]
    if not changes:
        return scraper
    if scraper is None:
        again = shoal_command("check FILE --proxies …")
        raise InvalidInput(f"--proxies and --tokens need a scraper. Run: {again}")
    return read_job(scraper, queue=common.DEFAULT_QUEUE, changes=changes).scraper
