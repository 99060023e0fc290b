"""`shoal demo`: the bundled shop, scraped before your eyes."""

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import options
from shoal.cli.asking import ask
from shoal.cli.console import put_json, put_text, say
from shoal.cli.exits import Exit

DATABASE = "demo.db"


def demo(
    workers: Annotated[int, typer.Option(min=1, help="How many worker processes to start.", metavar="N")] = 4,
    products: Annotated[
        int, typer.Option(min=10, help="How many products the shops sell.", metavar="N")
    ] = 2_000,
    out: Annotated[
        str, typer.Option("--out", "-o", help="Where the items go.", metavar="FILE")
    ] = "demo.jsonl",
    as_json: options.Json = False,
) -> None:
    """Serve four shops on this machine, scrape them with real workers, and show the results."""
    from shoal.cli.job import nursery_for, read_job
    from shoal.cli.run import carry_out, closing_words, exit_code
    from shoal.demo.serve import SiteProcess
    from shoal.fleet.seeds import Seeds

    for old in Path.cwd().glob(f"{DATABASE}*"):
        old.unlink()
    queue = f"sqlite:///{DATABASE}"
    with SiteProcess(products=products) as site:
        if not as_json:
            say(f"Four shops with {products:,} products are open: {', '.join(site.hosts)}")
        job = read_job(
            "shoal.demo.scraper:shop",
            nursery=nursery_for(queue),
            queue=queue,
            urls=site.seeds,
            workers=workers,
        )
        seeds = Seeds(urls=site.seeds)
        summary = ask(queue, lambda opened: carry_out(opened, job, seeds, None, out, None, None, as_json))
    if as_json:
        put_json(summary.as_json())
    else:
        say(closing_words(summary, out, job))
        _show(Path(out))
    # Pages that robots.txt forbids become dead letters: that is how it should end.
    if exit_code(summary) is Exit.FAILED or summary.snapshot.stats.remaining:
        raise typer.Exit(exit_code(summary))


def _show(file: Path) -> None:
    with file.open() as lines:
        for line in (next(lines, "") for _ in range(3)):
            put_text(line.strip()[:150])
