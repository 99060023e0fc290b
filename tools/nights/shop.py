"""A shop whose catalogue changes a little every night, and whose pages may change tonight."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape

from tests.integration.engine.origin import Answer

BRANDS = [
    "Adler",
    "Björk & Søn",
    "Calder",
    "Dürer",
    "Eton",
    "Fabre",
    "Größe",
    "Hale",
    "Ilves",
    "Jouët",
    "Kern",
    "Lund",
]
KINDS = ["lamp", "chair", "table", "kettle", "mirror", "rug", "clock", "vase"]
WORDS = [
    "solid",
    "light",
    "useful",
    "new",
    "of",
    "oak",
    "and",
    "steel",
    "for",
    "küche",
    "or",
    "garden",
    "made",
    "to",
    "last",
    "with",
    "a",
    "long",
    "life",
    "in",
    "mind",
]
PER_PAGE = 24

Product = dict[str, str]
Html = Callable[[str, Product], str]  # from a product page as ever to that of tonight


def make_product(number: int, rng: random.Random) -> Product:
    """Return one product of the shop."""
    return {
        "sku": f"AB-{number:05d}",
        "name": f"{rng.choice(BRANDS)} {rng.choice(KINDS)} {number}",
        "brand": rng.choice(BRANDS),
        "price": f"{rng.lognormvariate(3.5, 0.8) + 1:.2f}",
        "stock": rng.choices(["In stock", "Few left", "Sold out"], [80, 15, 5])[0],
        "rating": rng.choices(["", "1", "2", "3", "4", "5"], [20, 2, 5, 15, 30, 28])[0],
        "description": " ".join(rng.choices(WORDS, k=rng.randint(12, 80))),
        "images": " ".join(f"https://img.example/{number}/{n}.jpg" for n in range(rng.randint(1, 4))),
        "seller": rng.choice(BRANDS),
        "country": rng.choice(["GB", "DE", "FR"]),
        "updated": f"2026-0{rng.randint(1, 9)}-{rng.randint(10, 28)}",
    }


def render(product: Product) -> str:
    """Return the page of a product."""
    text = {name: escape(value) for name, value in product.items()}
    rating = f"<span class=rating>{text['rating']}</span>" if text["rating"] else ""
    images = "".join(f"<img src='{image}' alt=''>" for image in product["images"].split())
    return (
        f"<title>{text['name']}</title><h1>{text['name']}</h1><p class=sku>{text['sku']}</p>"
        f"<p class=brand>{text['brand']}</p><meta itemprop=priceCurrency content=GBP>"
        f"<p class=price>£{float(product['price']):,.2f}</p><p class=stock>{text['stock']}</p>{rating}"
        f"<div class=gallery>{images}</div><div class=description>{text['description']}</div>"
        f"<p class=seller><b>{text['seller']}</b> <i>{text['country']}</i></p><time>{text['updated']}</time>"
    )


@dataclass
class Tonight:
    """What is different tonight."""

    html: Html | None = None
    catalogue: Callable[[list[Product]], list[Product]] | None = None
    answer: Callable[[Answer, str], Answer] | None = None  # by the path
    listing: Callable[[str], str] | None = None


@dataclass
class Shop:
    """The site; `tonight` is what is different."""

    size: int = 200
    seed: int = 1
    tonight: Tonight = field(default_factory=Tonight)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self._next = self.size
        self.catalogue = [make_product(number, self.rng) for number in range(self.size)]
        self._shown: dict[str, Product] | None = None

    def pass_a_day(self, share: float = 0.05) -> None:
        """Replace products, change the prices of others, and let their number drift by up to half of that."""
        count = round(share * len(self.catalogue))
        for place in self.rng.sample(range(len(self.catalogue)), count):
            self.catalogue[place] = self._new_product()
        for product in self.rng.sample(self.catalogue, count):
            product["price"] = f"{float(product['price']) * self.rng.uniform(0.8, 1.2):.2f}"
        for product in self.rng.sample(self.catalogue, count):
            product["stock"] = self.rng.choices(["In stock", "Few left", "Sold out"], [80, 15, 5])[0]
        drift = self.rng.randint(-count // 2, count // 2)
        self.rng.shuffle(self.catalogue)
        if drift < 0:
            del self.catalogue[drift:]
        self.catalogue += [self._new_product() for _ in range(max(drift, 0))]

    def _new_product(self) -> Product:
        self._next += 1
        return make_product(self._next, self.rng)

    def change(self, tonight: Tonight) -> None:
        """Change the site from now on."""
        self.tonight, self._shown = tonight, None

    def __call__(self, path: str) -> Answer:
        answer = self._answer(path)
        return self.tonight.answer(answer, path) if self.tonight.answer else answer

    def _answer(self, path: str) -> Answer:
        if path.startswith("/p/"):
            product = self._products().get(path.removeprefix("/p/"))
            if product is None:
                return Answer("<h1>Not found</h1>", status=404)
            page = render(product)
            return Answer(self.tonight.html(page, product) if self.tonight.html else page)
        if path.startswith("/list/"):
            return Answer(self._list(int(path.removeprefix("/list/"))))
        return Answer("User-agent: *\n") if path == "/robots.txt" else Answer("", status=404)

    def _products(self) -> dict[str, Product]:
        if self._shown is None:
            shown = self.tonight.catalogue(self.catalogue) if self.tonight.catalogue else self.catalogue
            self._shown = {product.get("path", product["sku"]): product for product in shown}
        return self._shown

    def _list(self, number: int) -> str:
        paths = list(self._products())[number * PER_PAGE : (number + 1) * PER_PAGE]
        page = "".join(f"<li class=product><a href='/p/{path}'>{path}</a></li>" for path in paths)
        if (number + 1) * PER_PAGE < len(self._products()):
            page += f"<a rel=next href='/list/{number + 1}'>next</a>"
        return self.tonight.listing(page) if self.tonight.listing else page


def some(product: Product, share: float) -> bool:
    """Return whether a product is one of this share of all, always the same ones."""
    return int(sha256(product["sku"].encode()).hexdigest()[:8], 16) < share * 16**8
