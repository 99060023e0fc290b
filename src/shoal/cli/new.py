"""`shoal new`: a scraper to begin with."""

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.console import complain, say
from shoal.cli.exits import Exit

SCRAPER = '''"""Scrapes {name}. Try a page first:  shoal shell https://example.com"""

from shoal import Page, Scraper

{name} = Scraper("{name}", rate="1/s")


@{name}.step  # the first step handles the URLs that a run begins with
async def listing(page: Page):
    for link in page.links("a[href]"):
        yield page.follow(link, step=detail)
    yield page.follow(page.attr("a[rel=next]", "href"))


@{name}.step
async def detail(page: Page):
    yield {{"url": page.url, "title": page.text("title")}}
'''


def new(folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make.")]) -> None:
    """Make a folder with a scraper to begin with."""
    name = folder.name.replace("-", "_")
    if not name.isidentifier():
        complain(
            f"{folder.name!r} cannot be a scraper's name: use letters, digits and _. Run: shoal new shop"
        )
        raise typer.Exit(Exit.USAGE)
    file = folder / f"{name}.py"
    if file.exists():
        complain(f"{file} is there already. Run it with: shoal run {file} --url https://…")
        raise typer.Exit(Exit.USAGE)
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(SCRAPER.format(name=name))
    say(f"Wrote {file}. Run it with: shoal run {file} --url https://example.com --out {name}.jsonl")
