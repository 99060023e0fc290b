"""The scraper of the shop: as a user writes it who does not think of what may change."""

import os

from shoal import Page, Scraper

PRICES_MUST_BE_NUMBERS = "PRICES_MUST_BE_NUMBERS"  # a variable of the environment
shop = Scraper("shop", rate=None, per_host=50, allow_private="127.0.0.0/8")


def number(text):
    """Return the number of a text such as "£1,204.50"; the text itself if it has none."""
    digits = "".join(character for character in text if character in "0123456789.")
    try:
        return float(digits)
    except ValueError:
        if PRICES_MUST_BE_NUMBERS in os.environ:
            raise
        return text or None


@shop.step
async def listing(page: Page):
    for link in page.links(".product a"):
        yield page.follow(link, step=product)
    yield page.follow(page.attr("a[rel=next]", "href"), step=listing)


@shop.step
async def product(page: Page):
    price = page.text(".price")
    item = {
        "sku": page.text(".sku"),
        "name": page.text("h1"),
        "brand": page.text(".brand"),
        "price": number(price),
        "shown_price": price,
        "currency": page.attr("[itemprop=priceCurrency]", "content"),
        "stock": page.text(".stock"),
        "rating": number(page.text(".rating")),
        "description": page.text(".description"),
        "images": [node.attr("src") for node in page.css(".gallery img")],
        "seller": {"name": page.text(".seller b"), "country": page.text(".seller i")},
        "updated": page.text("time"),
    }
    for node in page.css(".extra"):
        item["energy_label"] = node.text()
    yield item
