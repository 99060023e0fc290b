"""A site in memory that records its requests."""

from datetime import timedelta

from shoal.core.http import Response
from shoal.core.model import Task
from shoal.discover.sitemaps.walk import Sitemaps

HOME = "https://a.test"


class Site:
    """Responds with configured bytes, a status, a response or an error; 404 for the rest."""

    def __init__(self, pages):
        self.pages = {url if "://" in url else f"{HOME}{url}": page for url, page in pages.items()}
        self.asked = []

    async def fetch(self, request):
        self.asked.append(request.url)
        page = self.pages.get(request.url, 404)
        page = page.pop(0) if isinstance(page, list) else page
        if isinstance(page, Exception):
            raise page
        if isinstance(page, int):
            return Response(url=request.url, status=page)
        if isinstance(page, Response):
            return page
        return Response(url=request.url, status=200, body=page if isinstance(page, bytes) else page.encode())


async def no_sleep(seconds):
    """Return at once."""


def sitemaps(site, *starts, **options):
    """Return a walk that does not wait."""
    options = {"delay": timedelta(0), "sleep": no_sleep} | options
    return Sitemaps(site.fetch, *starts, **options)


async def walk(site, *starts, **options):
    """Return the URLs that were found, the refusals, and the report."""
    source = sitemaps(site, *starts, **options)
    found = [each async for each in source]
    tasks = [each for each in found if isinstance(each, Task)]
    return [task.url for task in tasks], [each for each in found if each not in tasks], source.report


def urlset(*locs):
    """Return a sitemap of these URLs."""
    return f"<urlset>{''.join(f'<url><loc>{loc}</loc></url>' for loc in locs)}</urlset>"


def index(*locs):
    """Return an index of these sitemaps."""
    return f"<sitemapindex>{''.join(f'<sitemap><loc>{loc}</loc></sitemap>' for loc in locs)}</sitemapindex>"
