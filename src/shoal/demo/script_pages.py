"""Pages that need JavaScript: an empty page, a script, and the data that it fetches.

Nothing links to them, so a scraper without a browser misses nothing.
"""

import json

from shoal.demo.catalogue import CatalogueProduct, Shop

FOLDER = "/js/"
SCRIPT = f"{FOLDER}app.js"
PER_PAGE = 100

_FRAME = (
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


def path(one: CatalogueProduct) -> str:
    """Return the path of a product's JavaScript page."""
    return f"{FOLDER}p/{one.sku.lower()}"


def data_path(one: CatalogueProduct) -> str:
    """Return the path of its data."""
    return f"{FOLDER}data/{one.sku.lower()}.json"


def frame(data: str) -> str:
    """Return an empty page with the script that fills it."""
    return _FRAME.format(script=SCRIPT, data=data)


def data(one: CatalogueProduct) -> str:
    """Return the data of a product."""
    about = [
        f"{one.name}, number {one.sku}, from our {one.category}. {line}." for line in ("Oiled", "Packed")
    ]
    return json.dumps({"name": one.name, "price": one.price, "stock": one.stock, "about": about})


def listing(shop: Shop) -> str:
    """Return the data of the listing: the first products, as links."""
    return json.dumps([{"name": one.name, "href": path(one)} for one in shop.products[:PER_PAGE]])
