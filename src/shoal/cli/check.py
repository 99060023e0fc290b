"""`shoal check`: the doctor."""

from typing import Annotated

import typer

from shoal.cli import options
from shoal.cli.console import put_rows, say
from shoal.cli.exits import Exit


def check(
    scraper: Annotated[
        str | None, typer.Argument(metavar="[FILE[:NAME]]", help="A scraper to look at as well.")
    ] = None,
    queue: options.Queue = options.DEFAULT_QUEUE,
    as_json: options.Json = False,
) -> None:
    """Look at what a run needs: the scraper, the queue and what a crash of it can cost, this machine."""
    import uvloop

    from shoal.fleet.doctor import Finding, Health, examine

    async def looked() -> list[Finding]:
        return [finding async for finding in examine(queue, scraper)]

    findings = uvloop.run(looked())
    rows = [{"what": found.what, "health": str(found.health), "says": found.says} for found in findings]
    put_rows(rows, ("what", "health", "says"), as_json=as_json, nothing="")
    bad = [found for found in findings if found.health is Health.BAD]
    if bad and not as_json:
        say(f"Mend first: {', '.join(found.what for found in bad)}.")
    raise typer.Exit(Exit.FAILED if bad else Exit.OK)
