"""The response of a shop for each path; no network here."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial

from shoal.core.model import ZERO
from shoal.demo import pages, script_pages
from shoal.demo.catalogue import CatalogueProduct, Shop
from shoal.demo.faults import RETRY_AFTER, PageFault, fault_of, redirect_status, slow_delay
from shoal.demo.layout import PREVIEW

HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
XML = "application/xml"
JSON = "application/json"
SCRIPT = "text/javascript; charset=utf-8"
WESTERN = "windows-1252"
MAX_CACHED_PAGES = 2_000  # product pages, about 10 KB each


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopResponse:
    """A response, and how long to delay it."""

    status: int = 200
    body: bytes = b""
    content_type: str = HTML
    headers: tuple[tuple[str, str], ...] = ()
    wait: timedelta = ZERO


class ShopRoutes:
    """The routes of one shop. A page that fails once remembers its first request."""

    def __init__(self, shop: Shop, origin: str) -> None:
        self._shop = shop
        self._requested: set[str] = set()
        self._html = lru_cache(MAX_CACHED_PAGES)(partial(pages.product, shop))
        self._handlers = self._fixed(origin) | self._listings() | self._products() | self._script_pages()

    def respond(self, path: str) -> ShopResponse:
        """Return the response for a path with its query."""
        make = self._handlers.get(path)
        return make() if make else self._notice(404, "Not found", "There is no such page.")

    def _fixed(self, origin: str) -> dict[str, Callable[[], ShopResponse]]:
        shop = self._shop
        return {
            "/": lambda: _page(pages.home(shop)),
            "/help/": partial(self._notice, 200, "Help", "Ask anyone who wears an apron."),
            PREVIEW: partial(self._notice, 200, "Staff only", "You should not be here."),
            "/robots.txt": lambda: _page(pages.robots(origin), TEXT),
            "/sitemap.xml": lambda: _page(pages.sitemap(shop, origin), XML),
        }

    def _listings(self) -> dict[str, Callable[[], ShopResponse]]:
        handlers: dict[str, Callable[[], ShopResponse]] = {}
        for category, listing_pages in self._shop.listings.items():
            for number in range(1, len(listing_pages) + 1):
                handlers[f"/c/{category}/?page={number}"] = partial(self._listing, category, number)
            handlers[f"/c/{category}/"] = partial(self._listing, category, 1)
        return handlers

    def _products(self) -> dict[str, Callable[[], ShopResponse]]:
        handlers: dict[str, Callable[[], ShopResponse]] = {}
        for product in self._shop.products:
            handlers[product.path] = partial(self._product, product)
            if fault_of(product) is PageFault.MOVED:
                handlers[product.old_path] = partial(_moved, product)
        return handlers

    def _script_pages(self) -> dict[str, Callable[[], ShopResponse]]:
        """Return the routes of the pages that need JavaScript."""
        handlers: dict[str, Callable[[], ShopResponse]] = {
            script_pages.FOLDER: lambda: _page(script_pages.frame(f"{script_pages.FOLDER}data/all.json")),
            f"{script_pages.FOLDER}data/all.json": lambda: _page(script_pages.listing(self._shop), JSON),
            script_pages.SCRIPT: lambda: _page(script_pages.APP, SCRIPT),
        }
        for one in self._shop.products:
            handlers[script_pages.path(one)] = partial(_frame_of, one)
            handlers[script_pages.data_path(one)] = partial(_data_of, one)
        return handlers

    def _listing(self, category: str, number: int) -> ShopResponse:
        return _page(pages.listing(self._shop, category, number))

    def _product(self, product: CatalogueProduct) -> ShopResponse:
        match fault_of(product):
            case PageFault.FAILS_ONCE if self._is_first(product):
                return self._notice(500, "Something broke", "Please try again later.")
            case PageFault.BUSY_ONCE if self._is_first(product):
                return self._busy()
            case PageFault.SLOW:
                return ShopResponse(body=self._html(product).encode(), wait=slow_delay(product))
            case PageFault.BROKEN_HTML:
                return _page(pages.break_html(self._html(product)))
            case PageFault.WRONG_CHARSET:
                return ShopResponse(body=_western(self._html(product)))
            case PageFault.META_CHARSET:
                return ShopResponse(
                    body=_western(self._html(product).replace("utf-8", WESTERN, 1)), content_type="text/html"
                )
            case _:
                return _page(self._html(product))

    def _is_first(self, product: CatalogueProduct) -> bool:
        first = product.path not in self._requested
        self._requested.add(product.path)
        return first

    def _busy(self) -> ShopResponse:
        after = ("Retry-After", f"{RETRY_AFTER.total_seconds():.0f}")
        body = pages.notice(self._shop, "Slow down", "Too many visitors at once.").encode()
        return ShopResponse(status=429, body=body, headers=(after,))

    def _notice(self, status: int, title: str, text: str) -> ShopResponse:
        return ShopResponse(status=status, body=pages.notice(self._shop, title, text).encode())


def _page(text: str, content_type: str = HTML) -> ShopResponse:
    return ShopResponse(body=text.encode(), content_type=content_type)


def _frame_of(product: CatalogueProduct) -> ShopResponse:
    return _page(script_pages.frame(script_pages.data_path(product)))


def _data_of(product: CatalogueProduct) -> ShopResponse:
    return _page(script_pages.data(product), JSON)


def _moved(product: CatalogueProduct) -> ShopResponse:
    return ShopResponse(status=redirect_status(product), headers=(("Location", product.path),))


def _western(html: str) -> bytes:
    return html.encode("cp1252", "xmlcharrefreplace")
