"""The parts of a page of the manual, as HTML."""

import random
from collections.abc import Iterable
from html import escape

from tools.bench.crawl.words import code, heading, name, sentence

_STYLE = (
    "body{font:16px/1.6 sans-serif;margin:0;display:flex}nav{width:18rem}pre{background:#f4f4f4;padding:1em}"
)
_SCRIPT = "document.addEventListener('keydown',function(e){if(e.key==='/'&&1<2){location.hash='search'}});"


def framed(title: str, menu: str, article: str) -> str:
    """Return a whole page; the title is plain text."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n<script>{_SCRIPT}</script>\n</head>\n"
        "<body>\n"
        f'<nav class="sidebar">\n{menu}\n</nav>\n<main role="main">\n<h1>{escape(title)}</h1>\n'
        f"{article}\n</main>\n"
        '<footer><p>&copy; 2026 The Manual. Built with <a href="https://example.org/">care</a>.</p></footer>\n'
        "</body>\n</html>\n"
    )


def menu(dice: random.Random, links: Iterable[str]) -> str:
    """Return links as the entries of a tree."""
    entries = "\n".join(
        f'<li class="toctree-l2"><a class="reference internal" href="{escape(link)}">'
        f"{escape(heading(dice))}</a></li>"
        for link in links
    )
    return f'<ul class="current">\n{entries}\n</ul>'


def part(dice: random.Random, number: int, links: Iterable[str]) -> str:
    """Return a headed part of a page, with the links among its text."""
    title = escape(heading(dice))
    mark = f'<a class="headerlink" href="#part-{number}" title="Link to this heading">¶</a>'
    paragraphs = "\n".join(_paragraph(dice, link) for link in links)
    kind = dice.choice((_listing, _table, _points, _note))
    return f'<section id="part-{number}">\n<h2>{title}{mark}</h2>\n{paragraphs}\n{kind(dice)}\n</section>'


def _paragraph(dice: random.Random, link: str) -> str:
    before = " ".join(escape(sentence(dice)) for _ in range(dice.randint(0, 2)))
    anchor = f'<a class="reference internal" href="{escape(link)}"><span>{escape(name(dice))}</span></a>'
    return f"<p>{before} See {anchor}. <code>{escape(name(dice))}()</code> {escape(sentence(dice))}</p>"


def _listing(dice: random.Random) -> str:
    lines = "\n".join(code(dice) for _ in range(dice.randint(3, 16)))
    return f'<div class="highlight-python"><pre><span></span>{lines}\n</pre></div>'


def _table(dice: random.Random) -> str:
    rows = "\n".join(
        f"<tr><td><code>{escape(name(dice))}</code></td><td>{escape(sentence(dice))}</td></tr>"
        for _ in range(dice.randint(2, 10))
    )
    return (
        f'<table class="docutils">\n<thead><tr><th>Name</th><th>Meaning</th></tr></thead>\n{rows}\n</table>'
    )


def _points(dice: random.Random) -> str:
    points = "\n".join(f"<li><p>{escape(sentence(dice))}</p></li>" for _ in range(dice.randint(2, 8)))
    return f'<ul class="simple">\n{points}\n</ul>'


def _note(dice: random.Random) -> str:
    return f'<div class="admonition note"><p class="title">Note</p><p>{escape(sentence(dice))}</p></div>'
