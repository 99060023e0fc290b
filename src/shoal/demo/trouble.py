"""Which pages misbehave, and how: decided by the product's number, the same every time."""

from datetime import timedelta
from enum import Enum

from shoal.demo.catalogue import Product


class Trouble(Enum):
    """What is wrong with a page."""

    SLOW = "takes a while"
    FAILS_ONCE = "answers 500 the first time"
    BUSY_ONCE = "answers 429 the first time"
    MOVED = "is linked by its old address"
    BROKEN_HTML = "has tags that do not match"
    WRONG_CHARSET = "says utf-8, and is not"
    META_CHARSET = "says its charset in the page only"


RETRY_AFTER = timedelta(seconds=1)
MOVES = (301, 302, 307, 308)

# By the number modulo 100, else modulo 200, else as it is. All occur among a shop's first hundred.
_OFTEN = {
    **dict.fromkeys((11, 61), Trouble.SLOW),
    **dict.fromkeys((23, 73), Trouble.FAILS_ONCE),
    **dict.fromkeys((17, 47, 87), Trouble.MOVED),
    **dict.fromkeys((5, 35, 65), Trouble.BROKEN_HTML),
}
_RARELY = {41: Trouble.BUSY_ONCE}
_ONCE = {29: Trouble.WRONG_CHARSET, 79: Trouble.META_CHARSET}


def trouble_with(product: Product) -> Trouble | None:
    """Return what is wrong with a product's page, if anything."""
    number = product.number
    return _OFTEN.get(number % 100) or _RARELY.get(number % 200) or _ONCE.get(number)


def slowness(product: Product) -> timedelta:
    """Return how long a slow page takes: 0.2 to 0.5 seconds."""
    return timedelta(milliseconds=200 + 60 * (product.number // 50 % 6))


def linked_path(product: Product) -> str:
    """Return the address by which the shop links a product: the old one if it has moved."""
    return product.old_path if trouble_with(product) is Trouble.MOVED else product.path


def move_status(product: Product) -> int:
    """Return the kind of redirect that a moved page answers with."""
    return MOVES[product.number // 30 % len(MOVES)]
