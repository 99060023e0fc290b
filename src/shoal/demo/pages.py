"""The pages of a shop, as HTML."""

import random
from collections.abc import Iterable
from datetime import date, timedelta
from html import escape

from shoal.demo.catalogue import CATEGORIES, CatalogueProduct, Shop
from shoal.demo.faults import linked_path
from shoal.demo.layout import PREVIEW, STAFF, render_layout

_HOME = ("/", "Home")
_STARS = "★★★★★☆☆☆☆☆"
_NAMES = ("Ada", "Björn", "Chloé", "Dmitri", "Eun-ji", "Farid", "Grace", "Hugo")
_SENTENCES = (
    "Made in small batches by people who like what they do.",
    "It ages well, and looks better after a year than on the first day.",
    "Wipe it with a damp cloth; nothing stronger is needed.",
    "The finish is a natural oil, free of solvents.",
    "Every piece differs a little from the next, as it should.",
    "Our workshop keeps spare parts for at least ten years.",
    "Packed without plastic, in a box that you will want to keep.",
    "A favourite of the house, and the reason why some of us work here.",
)
_BREAKAGES = {
    "</td></tr>": "",
    "</p>": "",
    "<h1 ": "<h1 class=big id=",
    "</h2>": "</h3>",
    "<b>": "<b><i>",
    "</article>": "</div></b></article></article>",
    "</main>": "<!-- end of main ->",
    "&amp;": "&",
    "</body>\n</html>": "",
}


def home(shop: Shop) -> str:
    """Return the front page, with the categories."""
    cards = "\n".join(
        f'<section class="card"><h2><a href="/c/{name}/">{name.capitalize()}</a></h2>'
        f"<p>{sum(map(len, shop.listings[name]))} things. {_SENTENCES[index]}</p></section>"
        for index, name in enumerate(CATEGORIES)
    )
    return render_layout(
        shop,
        "Welcome",
        [_HOME],
        f'<h1>Welcome to {escape(shop.name)}</h1>\n<div class="grid">\n{cards}\n</div>',
    )


def listing(shop: Shop, category: str, page: int) -> str:
    """Return one page of a category; pages count from 1."""
    listing_pages = shop.listings[category]
    cards = "\n".join(map(_card, listing_pages[page - 1]))
    # Linked like a product, and forbidden by robots.txt: a visit means that robots.txt was ignored.
    if category == CATEGORIES[0] and page == 1:
        cards += f'\n<article class="card product"><h3><a href="{PREVIEW}">Next season</a></h3></article>'
    main = (
        f"<h1>{category.capitalize()}</h1>\n<p>Page {page} of {len(listing_pages)}</p>\n"
        f'<div class="grid">\n{cards}\n</div>\n{_pager(category, page, len(listing_pages))}'
    )
    return render_layout(shop, category.capitalize(), [_HOME, _crumb(category)], main)


def product(shop: Shop, one: CatalogueProduct) -> str:
    """Return the page of a product."""
    # Seeded by the product alone, so that a page is the same on every request.
    rng = random.Random(one.sku)
    main = "\n".join(
        [
            '<article itemscope itemtype="https://schema.org/Product">',
            f'<h1 itemprop="name">{escape(one.name)}</h1>',
            f'<p class="price" itemprop="price" content="{_price_amount(one)}">{escape(one.price)}</p>',
            f'<p class="stock">{f"{one.stock} in stock" if one.stock else "Sold out"}</p>',
            _details(one, rng),
            f"<h2>About it</h2>\n{_prose(rng)}",
            f"<h2>Reviews</h2>\n{_reviews(rng)}</article>",
            f'<aside><h2>Others liked</h2>\n<div class="grid">\n{_related(shop, one)}\n</div></aside>',
        ]
    )
    return render_layout(shop, one.name, [_HOME, _crumb(one.category), (one.path, one.sku)], main)


def notice(shop: Shop, title: str, text: str) -> str:
    """Return a page with just a message."""
    return render_layout(shop, title, [_HOME], f"<h1>{escape(title)}</h1>\n<p>{escape(text)}</p>")


def break_html(html: str) -> str:
    """Return a page with broken markup: tags left open, closed twice and badly nested."""
    for right, wrong in _BREAKAGES.items():
        html = html.replace(right, wrong)
    return html


def robots(origin: str) -> str:
    """Return the robots.txt."""
    return f"User-agent: *\nDisallow: {STAFF}\nAllow: /\n\nSitemap: {origin}/sitemap.xml\n"


def sitemap(shop: Shop, origin: str) -> str:
    """Return the sitemap with all categories and products."""
    paths = [f"/c/{name}/" for name in CATEGORIES] + [one.path for one in shop.products]
    day = date(2026, 1, 1)
    urls = "\n".join(
        f"<url><loc>{origin}{path}</loc><lastmod>{day + timedelta(days=index % 200)}</lastmod></url>"
        for index, path in enumerate(paths)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{urls}\n</urlset>\n'
    )


def _crumb(category: str) -> tuple[str, str]:
    return f"/c/{category}/", category.capitalize()


def _card(one: CatalogueProduct) -> str:
    return (
        f'<article class="card product"><h3><a href="{escape(linked_path(one))}">{escape(one.name)}</a></h3>'
        f'<p class="price">{escape(one.price)}</p><p class="rating">{_rating(one.number)}</p></article>'
    )


def _price_amount(one: CatalogueProduct) -> str:
    return one.price.removeprefix("€") if one.has_price else "?"


def _pager(category: str, page: int, pages: int) -> str:
    previous_link = f'<a rel="prev" href="/c/{category}/?page={page - 1}">Previous</a>' if page > 1 else ""
    next_link = f'<a rel="next" href="/c/{category}/?page={page + 1}">Next</a>' if page < pages else ""
    return f'<p class="pager">{previous_link} {next_link}</p>'


def _details(one: CatalogueProduct, rng: random.Random) -> str:
    rows = {
        "Article number": one.sku,
        "Category": one.category,
        "Weight": f"{rng.randint(50, 4_000)} g",
        "Size": " x ".join(f"{rng.randint(5, 90)} cm" for _ in range(3)),
        "Delivery": f"{rng.randint(2, 6)} days",
        "Warranty": f"{rng.randint(1, 10)} years",
    }
    cells = "\n".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in rows.items())
    return f'<table class="facts" data-sku="{one.sku}">\n{cells}\n</table>'


def _prose(rng: random.Random) -> str:
    return "\n".join(f"<p>{_paragraph(rng, 6)}</p>" for _ in range(rng.randint(7, 16)))


def _reviews(rng: random.Random) -> str:
    return "\n".join(_review(rng) for _ in range(rng.randint(2, 26)))


def _review(rng: random.Random) -> str:
    return (
        f'<div class="review"><p><b>{rng.choice(_NAMES)}</b> <span class="rating">'
        f"{_rating(rng.randint(0, 5))}</span></p><p>{_paragraph(rng, 4)}</p></div>"
    )


def _paragraph(rng: random.Random, max_sentences: int) -> str:
    return " ".join(rng.choices(_SENTENCES, k=rng.randint(2, max_sentences)))


def _related(shop: Shop, one: CatalogueProduct) -> str:
    return "\n".join(map(_card, _neighbours(shop, one.number)))


def _neighbours(shop: Shop, number: int) -> Iterable[CatalogueProduct]:
    size = len(shop.products)
    return (shop.products[(number + step) % size] for step in (1, 7, 19, 53, 101, 151))


def _rating(number: int) -> str:
    stars = number % 6
    return _STARS[5 - stars : 10 - stars]
