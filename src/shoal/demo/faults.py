"""Which pages have faults: determined by the product number, always the same."""

from datetime import timedelta
from enum import Enum

from shoal.demo.catalogue import CatalogueProduct


class PageFault(Enum):
    """A fault of a page."""

    SLOW = "responds slowly"
    FAILS_ONCE = "responds 500 the first time"
    BUSY_ONCE = "responds 429 the first time"
    MOVED = "is linked by its old URL"
    BROKEN_HTML = "has mismatched tags"
    WRONG_CHARSET = "declares utf-8, but is not"
    META_CHARSET = "declares its charset in the page only"


RETRY_AFTER = timedelta(seconds=1)
REDIRECT_STATUSES = (301, 302, 307, 308)

# By the number modulo 100, else modulo 200, else the number itself. All occur among a shop's first hundred.
_FREQUENT = {
    **dict.fromkeys((11, 61), PageFault.SLOW),
    **dict.fromkeys((23, 73), PageFault.FAILS_ONCE),
    **dict.fromkeys((17, 47, 87), PageFault.MOVED),
    **dict.fromkeys((5, 35, 65), PageFault.BROKEN_HTML),
}
_RARE = {41: PageFault.BUSY_ONCE}
_SINGLE = {29: PageFault.WRONG_CHARSET, 79: PageFault.META_CHARSET}


def fault_of(product: CatalogueProduct) -> PageFault | None:
    """Return the fault of a product's page, if any."""
    number = product.number
    return _FREQUENT.get(number % 100) or _RARE.get(number % 200) or _SINGLE.get(number)


def slow_delay(product: CatalogueProduct) -> timedelta:
    """Return the delay of a slow page: 0.2 to 0.5 seconds."""
    return timedelta(milliseconds=200 + 60 * (product.number // 50 % 6))


def linked_path(product: CatalogueProduct) -> str:
    """Return the path by which the shop links a product: the old one if it has moved."""
    return product.old_path if fault_of(product) is PageFault.MOVED else product.path


def redirect_status(product: CatalogueProduct) -> int:
    """Return the redirect status of a moved page."""
    return REDIRECT_STATUSES[product.number // 30 % len(REDIRECT_STATUSES)]
