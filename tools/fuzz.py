"""Read mutated pages with every extractor, in processes of their own: none may crash or be slow."""

import argparse
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import process_time

from shoal.core.errors import ParseFailed
from shoal.core.http import Response
from shoal.core.model import Task
from shoal.scrape.page import Page
from tools.bench.talk import say

MAX_SECONDS, MAX_BYTES = 1.0, 200 << 20  # for one page, of processor time and of memory
HANGS = 60  # seconds after which a page is given up
BATCH = 2_000  # pages for one process: what leaks is seen, and the next begins anew
MAX_SEED, MAX_SEEDS, MAX_PAGE = 40_000, 60, 200_000
DEBIAN = Path("/usr/share/doc")
FOUND = Path("build/fuzz")
READER = (sys.executable, "-m", "tools.fuzz", "--read")

SEEDS = (
    """<!doctype html><html><head><title>T</title><base href="/b/"><meta charset="utf-8"></head><body>
<table><tr><td><a href="/1?a=b&amp;c=d" class='x y'>one</a><td><form><input value=2></form></table>
<p>text <b>bold <i>both</b> italic</i><br/><svg><g><a xlink:href="#x"/></g></svg><math><mi>x</mi></math>
<select><option>1<option selected>2</select><script>if (a < b) { "</p>" }</script>
<template><p>t</p></template>
<![CDATA[ c ]]><!-- comment --><?pi x?></p></body></html>""",
    """<html lang=en><head><meta property="og:title" content=A><link rel=canonical href=/c>
<script type="application/ld+json">{"@graph": [{"@type": "Product", "offers": [{"price": 1}]}]}</script>
</head><body itemscope itemref="a b" itemtype="https://schema.org/Book"><div id=a><b itemprop=name>N</b>
<p itemprop="author x" itemscope itemref=b><a itemprop=url href=u>l</a></div><div id=b><i itemprop=name>B</i>
<div itemprop=part itemscope itemref="a c"></div></div><img itemprop=image src=i.png id=c></body></html>""",
    """<main><article><h1>Head</h1><p>A paragraph of text, with commas, and more text, for an article.</p>
<blockquote><ul><li>one<ol><li>two<pre><code class=language-py>x = 1</code></pre></ol></ul></blockquote>
<table><caption>C</caption><thead><tr><th colspan=2>A<th>B</thead><tbody><tr><td rowspan=2>1<td>2<td>3<tr><td>
<dl><dt>d<dd>e</dl></table><a><b><p>in a link<p><a href=s>l</a><del>no</del><q cite=x>q</q><video src=v>
</article></main>""",
    """<?xml version="1.0"?><rss version="2.0" xmlns:dc="d"><channel><title>F</title><link>/f</link><item>
<title>&lt;b&gt;E</title><link>/e</link><guid>1</guid><dc:creator>x</dc:creator><description><![CDATA[<p>d]]>
</description></item></channel></rss>""",
    """<feed xmlns="http://www.w3.org/2005/Atom"><title type=xhtml><div>F</div></title><entry><id>1</id><link
href="/e" rel="alternate"/><updated>2026-01-01T00:00:00Z</updated><content type="html">&lt;p&gt;</content>
</entry></feed>""",
    """{"version": "https://jsonfeed.org/version/1", "title": "F", "items": [{"id": 1, "url": "/e",
"authors": [{"name": "A"}], "content_html": "<p>"}]}""",
)
BITS = """
< > </ /> " ' = & &# &#x110000; <!-- --> <![CDATA[ ]]> <table> </table> <tr> <td> <p> </p> <b> </b> <a/href=
</a> <svg> </svg> <template> </template> <select> <option> <script> </script> <title> <textarea> <math>
<frameset> <body> <html> <a> <a/href=x> <i> <font> <nobr> <button> <li> <ul> <h1> <pre> <code> <br>
<img/src=x> <head> </body> <foreignObject> <noscript> <plaintext> <form> <base/href=//x>
<meta/charset=utf-7> é <blockquote> <td/rowspan=0> <td/colspan=9999> itemscope itemprop=x itemref=a id=a
<entry> </entry> <item> <th> <thead> <caption>
"""
PIECES = [
    *BITS.split(),
    "\0",
    "\ufeff",
    "\u2028",
    "\U0001f600",
    "\ud83d",
    "x" * 300,
    "<div>" * 60,
    "</div>" * 60,
]
SELECTORS = (
    "a[href]",
    "title",
    "td > a",
    "p b, p i",
    ":nth-child(2)",
    "tr:has(td)",
    "*:not(p)",
    "[class~=x]",
    "body *",
)
MARKDOWN_OF = (None, "body", "table", "a", "td", "li", "b")


@dataclass(frozen=True)
class Finding:
    """A page that was not read as it should be, by its number, and why."""

    number: int
    reason: str


def real_pages() -> tuple[str, ...]:
    """Return the pages above and small ones of the packages that this machine has."""
    paths = sorted(
        path for path in DEBIAN.rglob("*.html") if path.is_file() and path.stat().st_size < MAX_SEED
    )
    few = paths[:: max(1, len(paths) // MAX_SEEDS)]
    return (*SEEDS, *(path.read_text(errors="replace") for path in few))


def mutated(seeds: tuple[str, ...], number: int) -> bytes:
    """Return a page by its number."""
    chance = Random(number)
    text = chance.choice(seeds)
    for _ in range(chance.randrange(1, 12)):
        at, cut = chance.randrange(len(text) + 1), chance.choice((0, 0, 1, 5, 40, 400))
        text = text[:at] + _piece(chance, seeds, text) + text[at + cut :]
    text = text[:MAX_PAGE]
    body = text.encode(chance.choice(("utf-8", "utf-16", "latin-1", "utf-8")), errors="replace")
    return body[: chance.randrange(len(body) + 1)] if chance.random() < 0.2 else body


def _piece(chance: Random, seeds: tuple[str, ...], text: str) -> str:
    kind = chance.random()
    if kind < 0.7:
        return chance.choice(PIECES) * chance.choice((1, 1, 1, 2, 30))
    source = text if kind < 0.85 else chance.choice(seeds)
    start = chance.randrange(len(source) + 1)
    return source[start : start + chance.choice((10, 100, 1_000))] * chance.choice((1, 1, 3))


def read_everything(body: bytes) -> None:
    """Read a page with the parser and every extractor; of errors only ParseFailed may be raised."""
    page = Page(Response(url="https://e.com/", status=200, body=body), Task(url="https://e.com/"))
    for selector in SELECTORS:
        for node in page.css(selector)[:3]:
            node.text(), node.html, node.attr("href"), node.tag
    assert all(link.startswith(("http://", "https://")) for link in [*page.links(), *page.links("*")])
    page.text("body"), page.xpath("//a/@href"), page.encoding, page.follow("x"), page.form()
    extractors: list[Callable[[], object]] = [
        *(page.json, page.jsonld, page.microdata, page.opengraph, page.metadata, page.table, page.feed),
        page.article,
        *(lambda selector=selector: page.markdown(selector) for selector in MARKDOWN_OF),
    ]
    for extract in extractors:
        with suppress(ParseFailed):
            extract()


def fuzz(first: int, count: int) -> Iterator[Finding]:
    """Read pages in processes of their own; yield those that crash, hang, are slow or take much memory."""
    last = first + count
    while first < last:
        command = [*READER, str(first), str(min(last, first + BATCH))]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        begun, finding = first, None
        for line in ended.stdout.splitlines():
            begun, finding = json.loads(line)
            if finding:
                yield Finding(begun, finding)
        if ended.returncode:
            yield Finding(begun, _how(ended.returncode, ended.stderr))
        first = begun + 1


def _how(code: int, errors: str) -> str:
    if code == -signal.SIGALRM:
        return f"hangs for {HANGS} s"
    return signal.Signals(-code).name if code < 0 else "".join(errors.strip().splitlines()[-1:])


def read_pages(first: int, last: int) -> None:
    """Print the number of each page before it is read, and what was wrong with it after that."""
    seeds, before = real_pages(), _peak()
    read_everything(seeds[0].encode())
    for number in range(first, last):
        body = mutated(seeds, number)
        print(json.dumps((number, None)), flush=True)
        signal.alarm(HANGS)
        began = process_time()
        read_everything(body)
        signal.alarm(0)
        if (seconds := process_time() - began) > MAX_SECONDS:
            print(json.dumps((number, f"takes {seconds:.1f} s")), flush=True)
        if (grown := _peak() - before) > MAX_BYTES:
            print(json.dumps((number, f"takes {grown >> 20} MB")), flush=True)
            return  # the next process goes on: what this one has taken hides what other pages take


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> int:
    """Read the options and the pages."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pages", type=int, default=500_000)
    options.add_argument("--first", type=int, default=0, help="the number of the first page")
    options.add_argument("--read", type=int, nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.read:
        read_pages(*given.read)
        return 0
    found = 0
    for finding in fuzz(given.first, given.pages):
        found += 1
        FOUND.mkdir(parents=True, exist_ok=True)
        path = FOUND / f"{finding.number}.html"
        path.write_bytes(mutated(real_pages(), finding.number))
        say(f"page {finding.number} {finding.reason}: {path}")
    say(f"{given.pages:,} pages from number {given.first:,}: {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
