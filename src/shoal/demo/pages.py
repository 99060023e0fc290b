"""The pages of a shop, as HTML; and pages that need JavaScript, to which nothing links."""

import json
import random
from collections.abc import Sequence
from datetime import date, timedelta
from html import escape

from shoal.demo.catalogue import CATEGORIES, CatalogueProduct, Shop

STAFF = "/staff/"
PREVIEW = f"{STAFF}preview"
SCRIPT_PAGES = "/js/"
MAX_LISTED = 100  # products in the listing that needs JavaScript

_HOME = ("/", "Home")
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
_STYLE = """
body{font:16px/1.5 Georgia,serif;margin:0;color:#222;background:#fbfaf7}
header,footer{background:#243b36;color:#f3efe4;padding:1rem 2rem}header a,footer a{color:inherit}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:1.2rem;padding:0;margin:0}
main{max-width:66rem;margin:1.5rem auto;padding:0 1rem}.crumbs{font-size:.85rem;color:#665}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(14rem,1fr));gap:1.2rem}
.card{border:1px solid #ddd5c4;border-radius:6px;padding:1rem;background:#fff}
"""
_BREAKAGES = {
    "</td></tr>": "",
    "</p>": "",
    "<h1 ": "<h1 class=big id=",
    "</h2>": "</h3>",
    "<b>": "<b><i>",
    "</article>": "</div></b></article></article>",
    "&amp;": "&",
    "</body>\n</html>": "",
}
_SCRIPT_FRAME = (
    '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>Loading…</title></head>\n<body>\n'
    '<div id="root"></div>\n<noscript>You need to enable JavaScript to run this app.</noscript>\n'
    '<script src="{script}" data-from="{data}"></script>\n</body>\n</html>\n'
)
APP = """const root = document.getElementById("root");
const make = (tag, text, more) => Object.assign(document.createElement(tag), {textContent: text}, more);
const product = one => [make("h1", one.name), make("p", one.price, {className: "price"}),
  make("p", one.stock ? one.stock + " in stock" : "Sold out", {className: "stock"}),
  ...one.about.map(text => make("p", text, {className: "about"}))];
const listing = all => [make("h1", "Everything"), ...all.map(one => make("a", one.name, {href: one.href}))];
fetch(document.currentScript.dataset.from).then(answer => answer.json()).then(found => {
  document.title = found.name || "Everything";
  root.replaceChildren(...(Array.isArray(found) ? listing(found) : product(found)));
  root.className = "ready";
});
"""


def home(shop: Shop) -> str:
    """Return the front page, with the categories."""
    cards = "\n".join(
        f'<section class="card"><h2><a href="/c/{name}/">{name.capitalize()}</a></h2>'
        f"<p>{sum(map(len, shop.listings[name]))} things. {_SENTENCES[index]}</p></section>"
        for index, name in enumerate(CATEGORIES)
    )
    main = f'<h1>Welcome to {escape(shop.name)}</h1>\n<div class="grid">\n{cards}\n</div>'
    return _layout(shop, "Welcome", [_HOME], main)


def listing(shop: Shop, category: str, page: int) -> str:
    """Return one page of a category; pages count from 1."""
    listing_pages = shop.listings[category]
    cards = "\n".join(map(_card, listing_pages[page - 1]))
    # Linked like a product, and forbidden by robots.txt: a visit means that robots.txt was ignored.
    if category == CATEGORIES[0] and page == 1:
        cards += f'\n<article class="card product"><h3><a href="{PREVIEW}">Next season</a></h3></article>'
    is_last = page == len(listing_pages)
    after = "" if is_last else f'<a rel="next" href="/c/{category}/?page={page + 1}">Next</a>'
    main = (
        f"<h1>{category.capitalize()}</h1>\n<p>Page {page} of {len(listing_pages)}</p>\n"
        f'<div class="grid">\n{cards}\n</div>\n<p class="pager">{after}</p>'
    )
    return _layout(shop, category.capitalize(), [_HOME, _crumb(category)], main)


def product(shop: Shop, one: CatalogueProduct) -> str:
    """Return the page of a product."""
    # Seeded by the product alone, so that a page is the same on every request.
    rng = random.Random(one.sku)
    amount = one.price.removeprefix("€") if one.has_price else "?"
    main = "\n".join(
        [
            '<article itemscope itemtype="https://schema.org/Product">',
            f'<h1 itemprop="name">{escape(one.name)}</h1>',
            f'<p class="price" itemprop="price" content="{amount}">{escape(one.price)}</p>',
            f'<p class="stock">{f"{one.stock} in stock" if one.stock else "Sold out"}</p>',
            _details(one, rng),
            "<h2>About it</h2>",
            *(f"<p>{_paragraph(rng)}</p>" for _ in range(rng.randint(7, 16))),
            "<h2>Reviews</h2>",
            *(
                f'<div class="review"><p><b>{rng.choice(_NAMES)}</b></p><p>{_paragraph(rng)}</p></div>'
                for _ in range(rng.randint(2, 26))
            ),
            "</article>",
        ]
    )
    return _layout(shop, one.name, [_HOME, _crumb(one.category), (one.path, one.sku)], main)


def notice(shop: Shop, title: str, text: str) -> str:
    """Return a page with just a message."""
    return _layout(shop, title, [_HOME], f"<h1>{escape(title)}</h1>\n<p>{escape(text)}</p>")


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


def script_page(name: str) -> str:
    """Return an empty page with the script that fills it with the data of this name."""
    return _SCRIPT_FRAME.format(script=f"{SCRIPT_PAGES}app.js", data=f"{SCRIPT_PAGES}data/{name}.json")


def script_data(one: CatalogueProduct) -> str:
    """Return the data of a product's JavaScript page."""
    about = [
        f"{one.name}, number {one.sku}, from our {one.category}. {line}." for line in ("Oiled", "Packed")
    ]
    return json.dumps({"name": one.name, "price": one.price, "stock": one.stock, "about": about})


def script_listing(shop: Shop) -> str:
    """Return the data of the listing that needs JavaScript: the first products, as links."""
    listed = shop.products[:MAX_LISTED]
    return json.dumps([{"name": one.name, "href": f"{SCRIPT_PAGES}p/{one.sku.lower()}"} for one in listed])


def _layout(shop: Shop, title: str, crumbs: Sequence[tuple[str, str]], main: str) -> str:
    """Return a whole page; `title` and `crumbs` are plain text, `main` is HTML."""
    name = escape(shop.name)
    menu = "\n".join(f'<li><a href="/c/{one}/">{one.capitalize()}</a></li>' for one in CATEGORIES)
    trail = " / ".join(f'<a href="{escape(href)}">{escape(text)}</a>' for href, text in crumbs)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)} | {name}</title>\n<style>{_STYLE}</style>\n"
        f'<link rel="sitemap" href="/sitemap.xml">\n</head>\n<body class="shop-{shop.number}">\n'
        f'<header>\n<p class="logo"><a href="/">{name}</a></p>\n'
        f'<nav class="categories">\n<ul>\n{menu}\n</ul>\n</nav>\n</header>\n'
        f'<main>\n<p class="crumbs">{trail}</p>\n{main}\n</main>\n'
        f'<footer>\n<p>© {name}. <a href="mailto:hello@shop.example">Write to us</a> · '
        f'<a href="/help/">Help</a> · <a href="javascript:void(0)">Top</a></p>\n</footer>\n</body>\n</html>\n'
    )


def _crumb(category: str) -> tuple[str, str]:
    return f"/c/{category}/", category.capitalize()


def _card(one: CatalogueProduct) -> str:
    return (
        f'<article class="card product"><h3><a href="{escape(one.linked_path)}">{escape(one.name)}</a></h3>'
        f'<p class="price">{escape(one.price)}</p></article>'
    )


def _details(one: CatalogueProduct, rng: random.Random) -> str:
    rows = {
        "Article number": one.sku,
        "Category": one.category,
        "Weight": f"{rng.randint(50, 4_000)} g",
        "Delivery": f"{rng.randint(2, 6)} days",
    }
    cells = "\n".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in rows.items())
    return f'<table class="facts" data-sku="{one.sku}">\n{cells}\n</table>'


def _paragraph(rng: random.Random) -> str:
    return " ".join(rng.choices(_SENTENCES, k=rng.randint(2, 6)))
