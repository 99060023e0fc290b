"""`shoal shell`: fetch one page and try selectors on it."""

import code
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.console import put_json, put_text, say
from shoal.cli.options import common
from shoal.core.errors import InvalidInput

if TYPE_CHECKING:
    from shoal.scrape.page import Page


def shell(
    url: Annotated[str, typer.Argument(metavar="URL", help="Page to fetch.")],
    css: Annotated[
        str | None,
        typer.Option(
            "--css", help="Print the text of all matches of this selector and exit.", metavar="SELECTOR"
        ),
    ] = None,
    robots: Annotated[bool, typer.Option(help="Obey robots.txt.")] = True,
    fetch: Annotated[
        str | None,
        typer.Option(
            "--fetch", help="Fetcher to use: http or browser.", metavar="http|browser", show_default="http"
        ),
    ] = None,
    proxies: common.Proxies = None,
    tor: common.Tor = None,
    allow_private: common.AllowPrivate = None,
    as_json: common.Json = False,
) -> None:
    """Fetch a page as a worker would and open a Python shell with it as `page`.

    Example: shoal shell https://example.com --css h1 --fetch browser
    """
    import uvloop

    given = {"robots": robots, "proxies": proxies, "tor": tor}
    page = uvloop.run(_fetch(url, _read_fetch(fetch), given, allow_private or []))
    if css is not None:
        for node in page.css(css):
            put_json(node.text()) if as_json else put_text(node.text())
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


def _read_fetch(fetch: str | None) -> str:
    if fetch not in (None, "http", "browser"):
        raise InvalidInput(f"--fetch must be http or browser here, got {fetch!r}")
    return fetch or "http"


async def _fetch(url: str, fetch: str, given: dict[str, Any], allow_private: list[str]) -> "Page":
    from shoal.cli.options.job import allowed_private_hosts
    from shoal.core.http import Request
    from shoal.core.model import Task
    from shoal.core.urls import canonical
    from shoal.fetch.robots.robots import Robots
    from shoal.scrape.page import Page
    from shoal.scrape.scraper import Scraper
    from shoal.worker.fetchers.chain import open_fetcher
    from shoal.worker.process.main import USER_AGENT

    address = canonical(url)
    allowed = [*allow_private, *allowed_private_hosts([address])]
    settings = Scraper("shell", **given, allow_private=allowed).settings
    fetcher = await open_fetcher(settings, user_agent=USER_AGENT, fetch=fetch)
    try:
        if settings.robots:
            await Robots(fetcher, USER_AGENT).check(address)
        render = (lambda live: None) if fetch == "browser" else None
        response = await fetcher.fetch(Request(url=address, timeout=settings.timeout, render=render))
        return Page(replace(response, live=None), Task(url=address))
    finally:
        await fetcher.close()
