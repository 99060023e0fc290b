"""`shoal new`: create a scraper from a template."""

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.console import print_error, say
from shoal.cli.exits import Exit

SCRAPER = '''"""Scrapes {name}. Try a page first:  shoal shell https://example.com"""

from shoal import Page, Scraper

{name} = Scraper("{name}", rate="1/s")


@{name}.step  # the first step handles the start URLs of a run
async def listing(page: Page):
    for link in page.links("a[href]"):
        yield page.follow(link, step=detail)
    yield page.follow(page.attr("a[rel=next]", "href"))


@{name}.step
async def detail(page: Page):
    yield {{"url": page.url, "title": page.text("title")}}
'''


def new(folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to create.")]) -> None:
    """Create a folder with a new scraper from a template."""
    name = folder.name.replace("-", "_")
    if not name.isidentifier():
        print_error(
            f"{folder.name!r} is not a valid scraper name: use letters, digits and _. Run: shoal new shop"
        )
        raise typer.Exit(Exit.USAGE)
    file = folder / f"{name}.py"
    if file.exists():
        print_error(f"{file} already exists. Run it with: shoal run {file} --url https://…")
        raise typer.Exit(Exit.USAGE)
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(SCRAPER.format(name=name))
    say(f"Created {file}. Run it with: shoal run {file} --url https://example.com --out {name}.jsonl")
