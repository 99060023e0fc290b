"""Which answer a shop gives to which path; no network here."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial

from shoal.core.model import ZERO
from shoal.demo import pages, written
from shoal.demo.catalogue import Product, Shop
from shoal.demo.layout import PREVIEW
from shoal.demo.trouble import RETRY_AFTER, Trouble, move_status, slowness, trouble_with

HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
XML = "application/xml"
JSON = "application/json"
SCRIPT = "text/javascript; charset=utf-8"
WESTERN = "windows-1252"
KEPT = 2_000  # pages of products, about 10 KB each


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is sent back, and how long to wait before."""

    status: int = 200
    body: bytes = b""
    content_type: str = HTML
    headers: tuple[tuple[str, str], ...] = ()
    wait: timedelta = ZERO


class Routes:
    """The paths of one shop. A page that fails once remembers that it was asked."""

    def __init__(self, shop: Shop, origin: str) -> None:
        self._shop = shop
        self._asked: set[str] = set()
        self._html = lru_cache(KEPT)(partial(pages.product, shop))
        self._known = self._fixed(origin) | self._listings() | self._products() | self._written()

    def answer(self, path: str) -> Answer:
        """Return what to send back for a path with its query."""
        make = self._known.get(path)
        return make() if make else self._notice(404, "Not found", "There is no such page.")

    def _fixed(self, origin: str) -> dict[str, Callable[[], Answer]]:
        shop = self._shop
        return {
            "/": lambda: _page(pages.home(shop)),
            "/help/": partial(self._notice, 200, "Help", "Ask anyone who wears an apron."),
            PREVIEW: partial(self._notice, 200, "Staff only", "You should not be here."),
            "/robots.txt": lambda: _page(pages.robots(origin), TEXT),
            "/sitemap.xml": lambda: _page(pages.sitemap(shop, origin), XML),
        }

    def _listings(self) -> dict[str, Callable[[], Answer]]:
        known: dict[str, Callable[[], Answer]] = {}
        for category, shelf in self._shop.shelves.items():
            for number in range(1, len(shelf) + 1):
                known[f"/c/{category}/?page={number}"] = partial(self._listing, category, number)
            known[f"/c/{category}/"] = partial(self._listing, category, 1)
        return known

    def _products(self) -> dict[str, Callable[[], Answer]]:
        known: dict[str, Callable[[], Answer]] = {}
        for product in self._shop.products:
            known[product.path] = partial(self._product, product)
            if trouble_with(product) is Trouble.MOVED:
                known[product.old_path] = partial(_moved, product)
        return known

    def _written(self) -> dict[str, Callable[[], Answer]]:
        """Return the pages that scripts write."""
        known: dict[str, Callable[[], Answer]] = {
            written.FOLDER: lambda: _page(written.frame(f"{written.FOLDER}data/all.json")),
            f"{written.FOLDER}data/all.json": lambda: _page(written.listing(self._shop), JSON),
            written.SCRIPT: lambda: _page(written.APP, SCRIPT),
        }
        for one in self._shop.products:
            known[written.path(one)] = partial(_frame_of, one)
            known[written.data_path(one)] = partial(_data_of, one)
        return known

    def _listing(self, category: str, number: int) -> Answer:
        return _page(pages.listing(self._shop, category, number))

    def _product(self, product: Product) -> Answer:
        match trouble_with(product):
            case Trouble.FAILS_ONCE if self._is_first(product):
                return self._notice(500, "Something broke", "Please try again later.")
            case Trouble.BUSY_ONCE if self._is_first(product):
                return self._busy()
            case Trouble.SLOW:
                return Answer(body=self._html(product).encode(), wait=slowness(product))
            case Trouble.BROKEN_HTML:
                return _page(pages.broken(self._html(product)))
            case Trouble.WRONG_CHARSET:
                return Answer(body=_western(self._html(product)))
            case Trouble.META_CHARSET:
                return Answer(
                    body=_western(self._html(product).replace("utf-8", WESTERN, 1)), content_type="text/html"
                )
            case _:
                return _page(self._html(product))

    def _is_first(self, product: Product) -> bool:
        first = product.path not in self._asked
        self._asked.add(product.path)
        return first

    def _busy(self) -> Answer:
        after = ("Retry-After", f"{RETRY_AFTER.total_seconds():.0f}")
        body = pages.notice(self._shop, "Slow down", "Too many visitors at once.").encode()
        return Answer(status=429, body=body, headers=(after,))

    def _notice(self, status: int, title: str, text: str) -> Answer:
        return Answer(status=status, body=pages.notice(self._shop, title, text).encode())


def _page(text: str, content_type: str = HTML) -> Answer:
    return Answer(body=text.encode(), content_type=content_type)


def _frame_of(product: Product) -> Answer:
    return _page(written.frame(written.data_path(product)))


def _data_of(product: Product) -> Answer:
    return _page(written.data(product), JSON)


def _moved(product: Product) -> Answer:
    return Answer(status=move_status(product), headers=(("Location", product.path),))


def _western(html: str) -> bytes:
    return html.encode("cp1252", "xmlcharrefreplace")
