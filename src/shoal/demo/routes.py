"""The response of a shop for each path; no network here."""

import re
from datetime import timedelta
from functools import lru_cache, partial

from shoal.demo import pages
from shoal.demo.catalogue import CatalogueProduct, PageFault, Shop
from shoal.demo.responses import JSON, SCRIPT, TEXT, XML, ShopResponse, text_response

MAX_CACHED_PAGES = 2_000  # product pages, about 10 KB each
SLOW = timedelta(milliseconds=300)
RETRY_AFTER = 1  # seconds
REDIRECT_STATUSES = (301, 302, 307, 308)

_LISTING = re.compile(r"/c/([a-z]+)/(?:\?page=([1-9]\d{0,5}))?")


class ShopRoutes:
    """The routes of one shop. A page that fails once remembers its first request."""

    def __init__(self, shop: Shop, origin: str) -> None:
        self._shop, self._origin = shop, origin
        self._requested: set[str] = set()
        self._html = lru_cache(MAX_CACHED_PAGES)(partial(pages.product, shop))
        self._by_sku = {one.sku.lower(): one for one in shop.products}
        self._by_path = {one.path: one for one in shop.products}
        self._moved = {one.old_path: one for one in shop.products if one.fault is PageFault.MOVED}

    def respond(self, path: str) -> ShopResponse:
        """Return the response for a path with its query."""
        if path in self._by_path:
            return self._product(self._by_path[path])
        if path in self._moved:
            one = self._moved[path]
            status = REDIRECT_STATUSES[one.number // 30 % len(REDIRECT_STATUSES)]
            return ShopResponse(status=status, headers=(("Location", one.path),))
        if found := _LISTING.fullmatch(path):
            category, number = found[1], int(found[2] or 1)
            if number <= len(self._shop.listings.get(category, ())):
                return text_response(pages.listing(self._shop, category, number))
        elif path.startswith(pages.SCRIPT_PAGES):
            return self._script_page(path.removeprefix(pages.SCRIPT_PAGES))
        return self._fixed(path)

    def _fixed(self, path: str) -> ShopResponse:
        match path:
            case "/":
                return text_response(pages.home(self._shop))
            case "/robots.txt":
                return text_response(pages.robots(self._origin), TEXT)
            case "/sitemap.xml":
                return text_response(pages.sitemap(self._shop, self._origin), XML)
            case "/help/":
                return self._notice(200, "Help", "Ask anyone who wears an apron.")
            case pages.PREVIEW:
                return self._notice(200, "Staff only", "You should not be here.")
            case _:
                return self._notice(404, "Not found", "There is no such page.")

    def _script_page(self, path: str) -> ShopResponse:
        kind, _, name = path.partition("/")
        one = self._by_sku.get(name.removesuffix(".json"))
        match kind:
            case "":
                return text_response(pages.script_page("all"))
            case "app.js":
                return text_response(pages.APP, SCRIPT)
            case "data" if name == "all.json":
                return text_response(pages.script_listing(self._shop), JSON)
            case "data" if one:
                return text_response(pages.script_data(one), JSON)
            case "p" if one:
                return text_response(pages.script_page(name))
            case _:
                return self._notice(404, "Not found", "There is no such page.")

    def _product(self, product: CatalogueProduct) -> ShopResponse:
        is_first = product.path not in self._requested
        self._requested.add(product.path)
        html = self._html(product)
        match product.fault:
            case PageFault.FAILS_ONCE if is_first:
                return self._notice(500, "Something broke", "Please try again later.")
            case PageFault.BUSY_ONCE if is_first:
                body = pages.notice(self._shop, "Slow down", "Too many visitors at once.").encode()
                return ShopResponse(status=429, body=body, headers=(("Retry-After", str(RETRY_AFTER)),))
            case PageFault.SLOW:
                return ShopResponse(body=html.encode(), wait=SLOW)
            case PageFault.BROKEN_HTML:
                return text_response(pages.break_html(html))
            case _:
                return text_response(html)

    def _notice(self, status: int, title: str, text: str) -> ShopResponse:
        return text_response(pages.notice(self._shop, title, text), status=status)
