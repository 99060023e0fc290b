"""The products of the shops, generated from a seed, and the faults of their pages."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import msgspec

SHOP_NAMES = ("Lantern & Oak", "Tidewater Goods", "Møller & Sons", "The Copper Kettle", "Fern and Flint")
CATEGORIES = ("lamps", "kitchen", "garden", "textiles", "stationery")
PER_LISTING = 24
NO_PRICE = "Price on request"

_LOOKS = ("Plain", "Quiet", "Nordic", "Rustic", "Folding", "Tall", "Round", "Everyday", "Antique", "Señor")
_STUFFS = ("Oak", "Brass", "Linen", "Copper", "Glass", "Wool", "Café", "Cork", "Slate", "Bamboo", "Walnut")
_THINGS = {
    "lamps": ("Desk Lamp", "Lantern", "Floor Lamp", "Night Light", "Candle & Holder"),
    "kitchen": ("Salt & Pepper Mill", "Kettle", "Bread Board", "Teapot", "Crème Brûlée Dish"),
    "garden": ("Watering Can", "Plant Pot", "Trowel", "Bird House", "Hose <20 m>"),
    "textiles": ("Throw", "Cushion", "Tea Towel", "Curtain", 'Quilt 60"'),
    "stationery": ("Notebook", "Fountain Pen", "Ruler", "Letter Opener", "Doña Ana's Diary"),
}


class PageFault(Enum):
    """A fault of a page."""

    SLOW = "responds slowly"
    FAILS_ONCE = "responds 500 the first time"
    BUSY_ONCE = "responds 429 the first time"
    MOVED = "is linked by its old URL"
    BROKEN_HTML = "has mismatched tags"


# By the number modulo 100, else the number itself. All occur among a shop's first hundred.
_FREQUENT = {
    **dict.fromkeys((11, 61), PageFault.SLOW),
    **dict.fromkeys((23, 73), PageFault.FAILS_ONCE),
    **dict.fromkeys((17, 47, 87), PageFault.MOVED),
    **dict.fromkeys((5, 35, 65), PageFault.BROKEN_HTML),
}
_SINGLE = {41: PageFault.BUSY_ONCE}


class CatalogueProduct(msgspec.Struct, frozen=True):
    """One product; `number` counts within its shop."""

    shop: int
    number: int
    category: str
    sku: str
    name: str
    price: str
    stock: int

    @property
    def path(self) -> str:
        """The path of the page."""
        return f"/p/{self.sku.lower()}"

    @property
    def old_path(self) -> str:
        """The path before the page was moved; it redirects."""
        return f"/shop/item.php?id={self.number}"

    @property
    def has_price(self) -> bool:
        """Whether the page has a price; without one it yields no valid item."""
        return self.price != NO_PRICE

    @property
    def fault(self) -> PageFault | None:
        """The fault of the page, always the same."""
        return _FREQUENT.get(self.number % 100) or _SINGLE.get(self.number)

    @property
    def linked_path(self) -> str:
        """The path by which the shop links the product: the old one if it has moved."""
        return self.old_path if self.fault is PageFault.MOVED else self.path


@dataclass(frozen=True)
class Shop:
    """One host: its name and its products."""

    number: int
    name: str
    products: tuple[CatalogueProduct, ...]

    @cached_property
    def listings(self) -> dict[str, list[list[CatalogueProduct]]]:
        """The products by category, split into listing pages."""
        found = {name: [one for one in self.products if one.category == name] for name in CATEGORIES}
        return {name: list(_pages(products)) for name, products in found.items()}


def open_shops(shops: int, products: int, seed: int) -> list[Shop]:
    """Return this number of shops, with this number of products in total."""
    return [_shop(number, len(range(number, products, shops)), seed) for number in range(shops)]


def _shop(number: int, size: int, seed: int) -> Shop:
    rng = random.Random(f"{seed}/{number}")
    products = tuple(_product(rng, number, index) for index in range(size))
    return Shop(number, SHOP_NAMES[number % len(SHOP_NAMES)], products)


def _product(rng: random.Random, shop: int, number: int) -> CatalogueProduct:
    category = CATEGORIES[number % len(CATEGORIES)]
    words = (rng.choice(_LOOKS), rng.choice(_STUFFS), rng.choice(_THINGS[category]))
    price = f"€{rng.randint(200, 24_900) / 100:.2f}"
    return CatalogueProduct(
        shop=shop,
        number=number,
        category=category,
        sku=f"S{shop}-{number:05d}",
        name=" ".join(words),
        price=NO_PRICE if number % 250 == 31 else price,
        stock=rng.randint(0, 40),
    )


def _pages(products: list[CatalogueProduct]) -> Iterator[list[CatalogueProduct]]:
    # A category without products still has one, empty, page.
    for start in range(0, max(len(products), 1), PER_LISTING):
        yield products[start : start + PER_LISTING]
