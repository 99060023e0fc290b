"""Thousands of broken pages: only documented errors are raised, and the tree stays consistent."""

from contextlib import suppress
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.errors import ParseFailed
from shoal.core.http import Response
from shoal.core.model import Task
from shoal.scrape.page import Page

PAGES = 1_500
SEED = """<!doctype html><html><head><title>T</title><base href="/b/"><meta charset="utf-8"></head><body>
<table><tr><td><a href="/1?a=b&amp;c=d" class='x y'>one</a><td><form><input value=2></form></table>
<p>text <b>bold <i>both</b> italic</i><br/><svg><g><a xlink:href="#x"/></g></svg><math><mi>x</mi></math>
<select><option>1<option selected>2</select><script>if (a < b) { "</p>" }</script>
<template><p>t</p></template>
<![CDATA[ c ]]><!-- comment --><?pi x?></p></body></html>"""
BITS = """
< > </ /> " ' = & &# &#x110000; <!-- --> <![CDATA[ ]]> <table> </table> <tr> <td> <p> </p> <b> </b> <a/href=
</a> <svg> </svg> <template> </template> <select> <option> <script> </script> <title> <textarea> <math>
<frameset> <body> <html>
<head> </body> <foreignObject> <noscript> <plaintext> <form> <base/href=//x> <meta/charset=utf-7> é
"""
PIECES = [*BITS.split(), "\0", "\ufeff", "\u2028", "\U0001f600", "x" * 300, "<div>" * 60, "</div>" * 60]
SELECTORS = [
    "a[href]",
    "title",
    "td > a",
    "p b, p i",
    ":nth-child(2)",
    "tr:has(td)",
    "*:not(p)",
    "[class~=x]",
    "body *",
]


def ask_everything(body: bytes) -> None:
    page = Page(Response(url="https://e.com/", status=200, body=body), Task(url="https://e.com/"))
    for selector in SELECTORS:
        for node in page.css(selector)[:3]:
            node.text(), node.html, node.attr("href"), node.tag
    assert all(link.startswith(("http://", "https://")) for link in page.links())
    assert all(link.startswith(("http://", "https://")) for link in page.links("*"))
    page.text("body"), page.xpath("//a/@href"), page.encoding, page.follow("x")
    with suppress(ParseFailed):
        page.json()


def mutated(chance: Random) -> bytes:
    text = SEED
    for _ in range(chance.randrange(1, 12)):
        at = chance.randrange(len(text) + 1)
        cut = chance.choice((0, 0, 1, 5, 40))
        text = text[:at] + chance.choice(PIECES) + text[at + cut :]
    body = text.encode(chance.choice(("utf-8", "utf-16", "latin-1", "utf-8")), errors="replace")
    return body[: chance.randrange(len(body))] if chance.random() < 0.2 else body


def test_no_mutation_of_a_page_breaks_the_parser():
    chance = Random(20_260_215)
    for _ in range(PAGES):
        ask_everything(mutated(chance))


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=60))
def test_no_row_of_pieces_breaks_the_parser(pieces):
    ask_everything("".join(pieces).encode(errors="replace"))


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(body=st.binary(max_size=500))
def test_no_bytes_break_the_parser(body):
    ask_everything(b"{" + body)


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(text=st.text(alphabet="<>/ab=\"' &;!-", max_size=80))
def test_what_was_parsed_and_written_is_parsed_the_same_again(text):
    first = Page(Response(url="https://e.com/", status=200, body=text.encode()), Task(url="https://e.com/"))
    body = first.css_first("body")
    if body is None:
        return
    second = Page(
        Response(url="https://e.com/", status=200, body=body.html.encode()), Task(url="https://e.com/")
    )
    assert second.text("body") == first.text("body")
