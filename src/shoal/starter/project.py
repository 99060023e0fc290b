"""Writes a scraper that is proposed from a page, and tries it on that page."""

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

from shoal.core.errors import InvalidInput, ShoalError
from shoal.core.text import shorten
from shoal.core.values import counted
from shoal.scrape.page import Page
from shoal.scrape.scraper import Scraper
from shoal.starter.propose import ENOUGH_FIELDS, Proposal, ProposedData, propose, quoted


class ProposedScraper(NamedTuple):
    """The code of a scraper, and what its first step gives on the page that it was proposed from."""

    url: str
    body: bytes
    code: str
    items: int
    links: int
    says: str


def propose_scraper(name: str, page: Page, load: Callable[[str], Page]) -> ProposedScraper:
    """Return the scraper for a page; `load` fetches the page of its first item.

    Raises InvalidInput for a page that nothing can be proposed from.
    """
    _check(page)
    proposal, failure = propose(page), ""
    details = None
    if proposal.listing and proposal.listing.first_link and not proposal.data:
        try:
            details = propose(load(proposal.listing.first_link))
        except ShoalError as error:
            failure = f" The page of its first item was not read: {error}."
    code = scraper_code(name, page.url, proposal, details)
    names: dict[str, object] = {}
    exec(compile(code, f"{name}.py", "exec"), names)
    scraper = names[name]
    assert isinstance(scraper, Scraper)
    harvest = scraper.first.harvest(page)
    items, links = harvest.items, harvest.follow
    says = (
        f"The page gives {counted(len(items), 'item')} and {counted(len(links), 'link')} to follow.{failure}"
    )
    if items:
        says += f" The first item: {shorten(json.dumps(items[0], ensure_ascii=False, default=str), 300)}"
    # It stands in a docstring, a test and shoal.toml.
    url = page.url.replace("\\", "%5C").replace('"', "%22")
    return ProposedScraper(url, page.body, code, len(items), len(links), says)


def _check(page: Page) -> None:
    if page.status >= 400:
        raise InvalidInput(f"{page.url} answers {page.status}: there is no page to propose a scraper from")
    if "json" in page.headers.get("content-type", ""):
        raise InvalidInput(f"{page.url} is JSON. For an API, run: shoal new NAME --template api")


def scraper_code(name: str, url: str, proposal: Proposal, details: Proposal | None) -> str:
    """Return the code of a scraper; `details` is of the page of the first item, if it was fetched."""
    listing = proposal.listing
    has_details = details is not None and (
        details.data or len(getattr(listing, "fields", ())) < ENOUGH_FIELDS
    )
    is_manual = _leads_on(details if has_details else proposal if listing is None else None)
    scope = f", scope={quoted(url.rpartition('/')[0] + '/*')}" if is_manual else ""
    lines = [
        f"# Proposed from {url}",
        f"# Check each selector: shoal shell '{url}' --css SELECTOR",
        "",
        "from shoal import Page, Scraper",
        "",
        f'{name} = Scraper("{name}"{scope})',
        "",
        "",
        f"@{name}.step  # the first step gets the URLs that a run starts with",
    ]
    if is_manual:
        links = ["    for link in page.links():", "        yield page.follow(link)", ""]
        return "\n".join([*lines, "def item_page(page: Page):", *_page_item(None), *links])
    if proposal.data or listing is None:
        return "\n".join([*lines, "def item_page(page: Page):", *_page_item(proposal.data), ""])
    lines += ["def listing(page: Page):", f"    for row in page.css({quoted(listing.selector)}):"]
    if has_details:
        lines.append(f"        yield page.follow({listing.link}, step=item_page)")
    else:
        lines.append("        yield {")
        lines += [f"            {quoted(one.name)}: {one.expression}," for one in listing.fields]
        lines.append("        }")
    if proposal.following:
        lines.append(f"    yield page.follow({proposal.following})")
    if has_details and details is not None:
        lines += ["", "", f"@{name}.step", "def item_page(page: Page):", *_page_item(details.data)]
    return "\n".join([*lines, ""])


def _leads_on(page: Proposal | None) -> bool:
    """Return whether a page of text has a next one, as those of a manual: then all of them are items."""
    return page is not None and bool(page.following) and not page.data


def _page_item(data: ProposedData | None) -> Iterator[str]:
    """Yield the lines of a step that makes the item of a page."""
    if data:
        yield f"    for data in {data.call}:"
        yield "        yield {"
        yield '            "url": page.url,'
        yield from (f"            {quoted(one.name)}: {one.expression}," for one in data.fields)
        yield "        }"
        return
    yield "    yield {"
    yield '        "url": page.url,'
    yield '        "title": page.text("h1") or page.metadata().get("title"),'
    yield '        "text": page.article()["text"],'
    yield '        "links": page.links(),'
    yield "    }"
