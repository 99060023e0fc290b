"""`shoal demo`: serve the bundled shops and scrape them, or serve a site to practise on."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.commands.crawl.run import carry_out, exit_code, summary_text
from shoal.cli.console import print_error, put_json, put_text, say
from shoal.cli.exits import Exit
from shoal.cli.open_queue import with_queue
from shoal.cli.options import common
from shoal.cli.options.sources import start_options
from shoal.cli.options.workers import fork_server_for, read_job
from shoal.demo.practice import PLACES
from shoal.demo.site import DemoSite, SiteProcess, wait_for_signal
from shoal.fleet.run.results import Output
from shoal.fleet.sources.seeds import Seeds

DATABASE, OUT = "demo.db", "demo.jsonl"  # replaced by the next demo
PORT = 8_800  # where the templates of `shoal new` look for the site
PRACTICE_PRODUCTS = 150


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
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Scrape nothing: serve the site that the templates of `shoal new` use."),
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port of --serve; 0 uses a free one.", metavar="PORT")
    ] = PORT,
    as_json: common.Json = False,
) -> None:
    """Serve four demo shops on this machine, scrape them with real workers and show the results."""
    if serve:
        return _serve(port)

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
        seeds, start = Seeds(urls=site.seeds), start_options(None, "skip", as_json=as_json)
        output = Output(out, overwrite=overwrite or out == OUT)
        summary = with_queue(
            queue,
            lambda opened: carry_out(opened, job, seeds, start, output, as_json=as_json),
        )
    if as_json:
        put_json(summary.as_json())
    else:
        say(summary_text(summary, out))
        _show(Path(out))
    # Pages that robots.txt forbids become dead letters: here that is the expected result.
    if exit_code(summary) is Exit.FAILED or summary.snapshot.stats.remaining:
        raise typer.Exit(exit_code(summary))
    return None


def _serve(port: int) -> None:
    try:
        asyncio.run(_serve_practice(port))
    except OSError as error:
        print_error(
            f"Port {port} cannot be used: {error.strerror}. Use another one: shoal demo --serve --port 0"
        )
        raise typer.Exit(Exit.FAILED) from None


async def _serve_practice(port: int) -> None:
    async with DemoSite(1, PRACTICE_PRODUCTS, port=port) as site:
        width = max(map(len, PLACES))
        for path, text in PLACES.items():
            put_text(f"http://{site.hosts[0]}{path:<{width}}  {text}")
        put_text("Press Ctrl-C to stop.")
        await wait_for_signal()
    put_text(f"Stopped after {site.statuses.total():,} requests.")


def _show(file: Path) -> None:
    with file.open() as lines:
        for line in (next(lines, "") for _ in range(3)):
            put_text(line.strip()[:150])
