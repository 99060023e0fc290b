"""`shoal shell`: fetch pages, try selectors on them and run steps."""

from typing import Annotated

import typer

from shoal.cli.configuration import current_project
from shoal.cli.console import put_json, put_text, say
from shoal.cli.options import common
from shoal.cli.shell.interact import interact
from shoal.cli.shell.session import ShellSession
from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.fleet.project.scrapers import load
from shoal.scrape.node import Node
from shoal.scrape.page import Page
from shoal.scrape.scraper import Scraper
from shoal.worker.fetchers.chain import FETCHERS

BANNER = (
    "Try: page.text('h1')   page.css('a')   page.xpath('//a')   page.links()   page.json()\n"
    "     page.article()   page.markdown()\n"
    "     fetch('https://…', headers={…})   view(page)   run(step)"
)


def shell(
    url: Annotated[str | None, typer.Argument(metavar="[URL]", help="Page to fetch.")] = None,
    css: Annotated[
        str | None,
        typer.Option(
            "--css", help="Print the text of all matches of this selector and exit.", metavar="SELECTOR"
        ),
    ] = None,
    xpath: Annotated[
        str | None,
        typer.Option(
            "--xpath", help="Print all matches of this XPath expression and exit.", metavar="EXPRESSION"
        ),
    ] = None,
    scraper: Annotated[
        str | None,
        typer.Option(
            "--scraper",
            help="Scraper whose settings are used and whose steps run() runs: FILE[:NAME] or a name.",
            metavar="SCRAPER",
        ),
    ] = None,
    robots: Annotated[bool, typer.Option(help="Obey robots.txt.")] = True,
    fetch: Annotated[
        str | None,
        typer.Option(
            "--fetch",
            help="Fetcher to use: http (the default), browser or a plugin's.",
            metavar="NAME",
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
    if url is None and (css is not None or xpath is not None or as_json):
        raise InvalidInput("Name the page: shoal shell https://…")
    given = {"proxies": proxies, "tor": tor} | ({} if robots else {"robots": False})
    changes = {name: value for name, value in given.items() if value is not None}

    def load() -> Scraper:
        loaded = _load(scraper) if scraper else Scraper("shell")
        allowed = [*loaded.settings.allow_private, *(allow_private or [])]
        return loaded.replace(**changes, allow_private=allowed)

    session = ShellSession(load().settings, _read_fetch(fetch), load=load if scraper else None)
    if url and (css is not None or xpath is not None):
        _put_matches(session.load(url), css, xpath, as_json)
        return
    if url and as_json:
        page = session.load(url)
        put_json({"url": page.url, "status": page.status, "encoding": page.encoding, "bytes": len(page.body)})
        return
    if url:
        session.fetch(url)
    interact(session.names, BANNER)


def _load(reference: str) -> "Scraper":
    return load(current_project(), reference).scraper


def _put_matches(page: "Page", css: str | None, xpath: str | None, as_json: bool) -> None:
    if css is not None and xpath is not None:
        raise InvalidSetting("--xpath", "and --css cannot be combined; leave one of them out")
    if css is not None:
        found = [node.text() for node in page.css(css)]
    else:
        found = [one.text() if isinstance(one, Node) else str(one) for one in page.xpath(xpath or "")]
    for text in found:
        put_json(text) if as_json else put_text(text)
    if not found:
        wanted = css if css is not None else xpath
        say(f"Nothing matches {wanted!r} in {page.url} (status {page.status}, {len(page.body):,} bytes).")


def _read_fetch(fetch: str | None) -> str:
    if fetch == "auto" or (fetch and FETCHERS.find(fetch) is None):
        raise InvalidInput(f"--fetch must be http, browser or a plugin's fetcher here, got {fetch!r}")
    return fetch or "http"
