"""`shoal shell`: fetch one page and try selectors on it."""

import code
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.cli.console import put_json, say

if TYPE_CHECKING:
    from shoal.scrape.page import Page


def shell(
    url: Annotated[str, typer.Argument(metavar="URL")],
    css: Annotated[
        str | None, typer.Option("--css", help="Print the texts that this selector finds, and end.")
    ] = None,
    robots: Annotated[bool, typer.Option(help="Obey robots.txt.")] = True,
    allow_private: options.AllowPrivate = None,
    as_json: options.Json = False,
) -> None:
    """Fetch a page as a worker would, and try out what a step would see.

    Example: shoal shell https://example.com --css h1
    """
    import uvloop

    page = uvloop.run(_fetch(url, robots, allow_private or []))
    if css is not None:
        for node in page.css(css):
            put_json(node.text()) if as_json else typer.echo(node.text())
        return
    if as_json:
        put_json({"url": page.url, "status": page.status, "encoding": page.encoding, "bytes": len(page.body)})
        return
    say(f"{page.status} {page.url}: {len(page.body):,} bytes, {page.encoding}")
    code.interact(
        banner="Try: page.text('h1')   page.css('a')   page.attr('a', 'href')   page.links()   page.json()",
        local={"page": page},
        exitmsg="",
    )


async def _fetch(url: str, robots: bool, allow_private: list[str]) -> "Page":
    from shoal.cli.job import typed_private
    from shoal.core.exchange import Request
    from shoal.core.model import Task
    from shoal.core.urls import canonical
    from shoal.fetch.egress import Egress
    from shoal.fetch.http import HttpFetcher
    from shoal.fetch.robots import Robots
    from shoal.scrape.page import Page
    from shoal.worker.child import USER_AGENT

    address = canonical(url)
    fetcher = HttpFetcher(egress=Egress([*allow_private, *typed_private([address])]), user_agent=USER_AGENT)
    try:
        if robots:
            await Robots(fetcher, USER_AGENT).check(address)
        return Page(await fetcher.fetch(Request(url=address)), Task(url=address))
    finally:
        await fetcher.close()
