"""Three newspapers with sitemaps: an index that robots.txt names, a compressed file, and one of news.

By hand: python -m examples.news.site
"""

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from html import escape
from typing import Any

from examples.common.site import Ports, open_ports, rename, serve
from examples.news.articles import PAPERS, SECTIONS, Article, articles
from shoal.demo.http import ShopRequest
from shoal.demo.responses import XML, ShopResponse, error_page, link_list, page_response

NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
NEWS = 'xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"'
INVALID = ("httq://paper.example/typo", "http://elsewhere.example/not-ours", "no address at all")
SLOW = timedelta(seconds=20)  # longer than the timeout of the scraper
GZIP = "application/gzip"
TICK = 0.1  # seconds


class Newspaper:
    """Responds as one paper, and remembers when it was asked for an article."""

    def __init__(self, paper: str, ports: Ports) -> None:
        self._paper, self._ports = paper, ports
        self._articles = {one.path: one for section in SECTIONS for one in articles(paper, section)}
        self.visits: list[tuple[float, str]] = []

    def __call__(self, request: ShopRequest) -> ShopResponse:
        path = request.path.partition("?")[0]
        match path:
            case "/":
                return page_response(
                    self._paper.title(), link_list({one.path: one.title for one in self._articles.values()})
                )
            case "/sitemaps.xml":
                return self._index()
            case "/archive.xml.gz":
                wanted = [*articles(self._paper, "archive"), *articles(self._paper, "weather")]
                packed = gzip.compress(self._urlset(wanted, INVALID), mtime=0)
                return ShopResponse(body=packed, content_type=GZIP)
            case "/news.xml":
                wanted = [*articles(self._paper, "breaking"), *articles(self._paper, "live")]
                return ShopResponse(body=self._urlset(wanted), content_type=XML)
            case _ if path in self._articles:
                self.visits.append((time.monotonic(), path))
                return self._article(self._articles[path])
            case _:
                return error_page(404)

    def _index(self) -> ShopResponse:
        base = f"http://127.0.0.1:{PAPERS[self._paper]}"
        files = "".join(
            f"<sitemap><loc>{base}/{name}</loc></sitemap>" for name in ("news.xml", "archive.xml.gz")
        )
        text = rename(f"<sitemapindex {NAMESPACE}>{files}</sitemapindex>", self._ports.names)
        return ShopResponse(body=text.encode(), content_type=XML)

    def _urlset(self, wanted: list[Article], more: tuple[str, ...] = ()) -> bytes:
        entries = [_entry(article) for article in wanted]
        entries += [f"<url><loc>{escape(text)}</loc></url>" for text in more]
        text = f"<urlset {NAMESPACE} {NEWS}>{''.join(entries)}</urlset>"
        return rename(text, self._ports.names).encode()

    def _article(self, article: Article) -> ShopResponse:
        """Respond with an article; of the archive the first fails, the second hangs, the third is gone."""
        match article.section, article.number:
            case (("archive" | "live"), 1):
                return page_response("Sorry", "<p>The press is broken.</p>", 500)
            case "archive", 2:
                return ShopResponse(body=b"too late", wait=SLOW)
            case "archive", 3:
                return error_page(404)
            case _:
                pass
        about = f'data-paper="{article.paper}" data-section="{article.section}"'
        return page_response(article.title, f"<article {about}></article>")


def _entry(article: Article) -> str:
    about = ""
    if article.section == "breaking":
        about = (
            f"<news:news><news:publication><news:name>{article.paper}</news:name>"
            f"<news:language>en</news:language></news:publication>"
            f"<news:publication_date>{article.published}</news:publication_date>"
            f"<news:title>{escape(article.title)}</news:title></news:news>"
        )
    return f"<url><loc>{article.url}</loc><lastmod>{article.published}</lastmod>{about}</url>"


@asynccontextmanager
async def open_site(are_free: bool) -> AsyncIterator[tuple[Ports, Callable[[], dict[str, Any]]]]:
    async with open_ports(are_free=are_free) as ports:
        papers = {name: Newspaper(name, ports) for name in PAPERS}
        for name, paper in papers.items():
            robots = f"Sitemap: http://127.0.0.1:{PAPERS[name]}/sitemaps.xml\n"
            await ports.serve(paper, PAPERS[name], robots=robots)

        async with measure_lateness() as lateness:
            yield (
                ports,
                lambda: {
                    "late": lateness[0],
                    "visits": {name: paper.visits for name, paper in papers.items()},
                },
            )


@asynccontextmanager
async def measure_lateness() -> AsyncIterator[list[float]]:
    """Yield a list with the seconds that this process was at most late: requests look that much closer."""
    lateness = [0.0]

    async def measure() -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(TICK)
            lateness[0] = max(lateness[0], time.monotonic() - began - TICK)

    task = asyncio.create_task(measure())
    try:
        yield lateness
    finally:
        task.cancel()


if __name__ == "__main__":
    serve(open_site)
