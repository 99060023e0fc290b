"""`shoal demo`: serve the bundled shops and scrape them."""

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.console import put_json, put_text, say
from shoal.cli.exits import Exit
from shoal.cli.open_queue import with_queue
from shoal.cli.options import common

DATABASE, OUT = "demo.db", "demo.jsonl"  # replaced by the next demo


def demo(
    workers: Annotated[
        int, typer.Option(min=1, help="Number of worker processes to start.", metavar="N")
    ] = 4,
    products: Annotated[
        int, typer.Option(min=10, help="Number of products in the shops.", metavar="N")
    ] = 2_000,
    out: Annotated[
        str, typer.Option("--out", "-o", help="Write the items to this file.", metavar="FILE")
    ] = OUT,
    overwrite: common.Overwrite = False,
    as_json: common.Json = False,
) -> None:
    """Serve four demo shops on this machine, scrape them with real workers and show the results."""
    from shoal.cli.commands.crawl.run import carry_out, exit_code, summary_text
    from shoal.cli.options.job import fork_server_for, read_job
    from shoal.demo.serve import SiteProcess
    from shoal.fleet.sources.seeds import Seeds

    for old in Path.cwd().glob(f"{DATABASE}*"):
        old.unlink()
    queue = f"sqlite:///{DATABASE}"
    with SiteProcess(products=products) as site:
        if not as_json:
            say(f"Serving four demo shops with {products:,} products: {', '.join(site.hosts)}")
        job = read_job(
            "shoal.demo.scraper:shop",
            fork_server=fork_server_for(queue),
            queue=queue,
            urls=site.seeds,
            workers=workers,
        )
        seeds = Seeds(urls=site.seeds)
        summary = with_queue(
            queue,
            lambda opened: carry_out(
                opened, job, seeds, None, out, None, None, as_json, overwrite=overwrite or out == OUT
            ),
        )
    if as_json:
        put_json(summary.as_json())
    else:
        say(summary_text(summary, out, job))
        _show(Path(out))
    # Pages that robots.txt forbids become dead letters: here that is the expected result.
    if exit_code(summary) is Exit.FAILED or summary.snapshot.stats.remaining:
        raise typer.Exit(exit_code(summary))


def _show(file: Path) -> None:
    with file.open() as lines:
        for line in (next(lines, "") for _ in range(3)):
            put_text(line.strip()[:150])
