"""`shoal check`: the doctor."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.cli.console import put_rows, say
from shoal.cli.exits import Exit

if TYPE_CHECKING:
    from shoal.scrape.scraper import Scraper


def check(
    scraper: Annotated[
        str | None, typer.Argument(metavar="[FILE[:NAME]]", help="A scraper to look at as well.")
    ] = None,
    proxies: options.Proxies = None,
    tokens: options.Tokens = None,
    partition_table: options.PartitionTable = None,
    queue: options.Queue = options.DEFAULT_QUEUE,
    as_json: options.Json = False,
) -> None:
    """Look at what a run needs: the scraper, the queue and what a crash of it can cost, this machine.

    Proxies, tokens and a partition table are those of the scraper, or the ones that are typed.
    """
    import uvloop

    from shoal.fleet.doctor import Finding, Health, examine

    subject = changed(scraper, proxies, tokens)

    async def looked() -> list[Finding]:
        return [finding async for finding in examine(queue, subject, partition_table)]

    findings = uvloop.run(looked())
    rows = [{"what": found.what, "health": str(found.health), "says": found.says} for found in findings]
    put_rows(rows, ("what", "health", "says"), as_json=as_json, nothing="")
    bad = [found for found in findings if found.health is Health.BAD]
    if bad and not as_json:
        say(f"Mend first: {', '.join(found.what for found in bad)}.")
    raise typer.Exit(Exit.FAILED if bad else Exit.OK)


def changed(scraper: str | None, proxies: str | None, tokens: str | None) -> "str | Scraper | None":
    """Return the scraper as its name, or loaded with the settings that were typed for it."""
    from shoal.cli.job import read_job
    from shoal.core.errors import InvalidInput

    changes = [*options.setting("proxies", proxies), *options.setting("tokens", tokens)]
    if not changes:
        return scraper
    if scraper is None:
        raise InvalidInput("--proxies and --tokens need a scraper. Run: shoal check FILE --proxies …")
    return read_job(scraper, queue=options.DEFAULT_QUEUE, changes=changes).scraper
