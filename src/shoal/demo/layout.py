"""The layout of every page: head, menu, breadcrumbs, footer."""

from collections.abc import Sequence
from functools import cache
from html import escape

from shoal.demo.catalogue import CATEGORIES, Shop

STAFF = "/staff/"
PREVIEW = f"{STAFF}preview"

_STYLE = """
body{font:16px/1.5 Georgia,serif;margin:0;color:#222;background:#fbfaf7}
header,footer{background:#243b36;color:#f3efe4;padding:1rem 2rem}header a,footer a{color:inherit}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:1.2rem;padding:0;margin:0}
main{max-width:66rem;margin:1.5rem auto;padding:0 1rem}.crumbs{font-size:.85rem;color:#665}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(14rem,1fr));gap:1.2rem}
.card{border:1px solid #ddd5c4;border-radius:6px;padding:1rem;background:#fff}
.price{font-weight:bold;color:#8a3b12}.stock{color:#386641}.rating{color:#b5892c}
table.facts{border-collapse:collapse;width:100%}table.facts th{text-align:left;width:12rem;color:#665}
table.facts td,table.facts th{border-bottom:1px solid #e7e0d2;padding:.35rem .5rem}
.review{border-left:3px solid #ddd5c4;margin:1rem 0;padding:.2rem 1rem}.pager{display:flex;gap:1rem}
"""
_HELP = ("Delivery", "Returns", "Sizes", "Gift cards", "Careers", "Press", "Contact", "Imprint", "Privacy")


def render_layout(shop: Shop, title: str, crumbs: Sequence[tuple[str, str]], main: str) -> str:
    """Render a whole page; `title` and `crumbs` are plain text, `main` is HTML."""
    top, bottom = _frame(shop.number, shop.name)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)} | {escape(shop.name)}</title>\n{top}{_trail(crumbs)}\n{main}\n{bottom}"
    )


def _trail(crumbs: Sequence[tuple[str, str]]) -> str:
    links = " / ".join(f'<a href="{escape(href)}">{escape(text)}</a>' for href, text in crumbs)
    return f'<p class="crumbs">{links}</p>'


@cache
def _frame(number: int, name: str) -> tuple[str, str]:
    menu = "\n".join(
        f'<li><a href="/c/{category}/">{category.capitalize()}</a></li>' for category in CATEGORIES
    )
    top = (
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{_STYLE}</style>\n'
        f'<link rel="sitemap" href="/sitemap.xml">\n</head>\n<body class="shop-{number}">\n'
        f'<header>\n<p class="logo"><a href="/">{escape(name)}</a></p>\n'
        f'<nav class="categories">\n<ul>\n{menu}\n</ul>\n'
        f'</nav>\n<form action="/search"><label>Search <input name="q"></label></form>\n</header>\n<main>\n'
    )
    helps = "\n".join(f'<li><a href="/help/#{word.lower()}">{word}</a></li>' for word in _HELP)
    bottom = (
        f"</main>\n<footer>\n<nav><ul>\n{helps}\n</ul></nav>\n"
        f'<p>© {escape(name)}. <a href="mailto:hello@shop.example">Write to us</a> · '
        f'<a href="javascript:void(0)">Top</a></p>\n</footer>\n</body>\n</html>\n'
    )
    return top, bottom
