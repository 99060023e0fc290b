"""Hostile pages: parsed in bounded time and memory, or rejected with a clear error."""

import subprocess
import sys
from inspect import getsource
from time import process_time

import pytest
from turbohtml import parse

from shoal.core.errors import ParseFailed
from shoal.scrape import parsing as tree
from shoal.scrape.parsing import MAX_TEXT, can_limit_memory, parse_html

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="bounds memory by /proc, which only Linux has")
PARAGRAPH = '<p class="x">Some <b>words</b> and <a href="/a?b=1">a link</a></p>\n'


def bomb(length, attributes=30):
    """Return a page whose formatting elements are reopened in every paragraph."""
    names = " ".join(chr(0x100 + number) for number in range(attributes))
    head = "<p>"
    while len(head) < length // 2:
        head += f"<b q{len(head)} {names}>"
    return head + "<p>x" * ((length - len(head)) // 4)


# what it is: (the page, the tag that must be found in it)
HOSTILE = {
    "a thousand deep": ("<div>" * 1_000 + "<a>", "a"),
    "ten thousand deep": ("<span>" * 10_000 + "<a>", "a"),
    "a million deep": ("<div>" * 1_000_000 + "<a>", "a"),
    "a million formatting elements": ("<b>" * 1_000_000 + "<a>", "a"),
    "fifty thousand attributes": ("<p " + " ".join(f"a{n}" for n in range(50_000)) + "><a>", "a"),
    "a million attributes": ("<p " + " ".join(f"a{n}=1" for n in range(600_000)) + "><a>", "a"),
    "the same attribute": ("<p " + "a=1 " * 1_000_000 + "><a>", "a"),
    "a million brackets": ("<" * 1_000_000, "body"),
    "tables in tables": ("<table><tr><td>" * 100_000, "td"),
    "wrongly nested": ("<a><b><i><p>" * 50_000, "p"),
    "options": ("<select>" + "<option>" * 200_000, "option"),
    "templates": ("<template>" * 200_000, "template"),
    "entities": ("&amp;&notin;&#x41;" * 200_000, "body"),
    "comments": ("<!--" * 1_000_000, "html"),
    "foreign": ("<svg><foreignObject>" * 100_000, "svg"),
    "zero characters": ("\0" * 1_000_000, "body"),
    "one long name": ("<" + "x" * 4_000_000 + ">", "body"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_page_is_parsed_quickly(name):
    text, tag = HOSTILE[name]
    started = process_time()
    assert parse_html(text).select_one(tag) is not None
    assert process_time() - started < 5


def test_a_page_that_is_too_long_is_refused_at_once():
    with pytest.raises(ParseFailed, match="has 50,000,000 characters; the limit is 8,000,000"):
        parse_html("<" * 50_000_000)
    assert MAX_TEXT == 8_000_000


MEASURE = """
import resource
from shoal.core.errors import ParseFailed
from shoal.scrape.parsing import parse_html
text = {call}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    parse_html(text)
except ParseFailed as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def measured(call):
    """Parse in a separate process; return its output, and by how many MB it grew."""
    script = getsource(bomb) + MEASURE.format(call=call)
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    *said, grown = ran.stdout.splitlines()
    return said, int(grown)


@on_linux
def test_a_page_that_would_take_gigabytes_is_stopped_in_time():
    said, grown = measured("bomb(300_000)")
    (text,) = said
    assert text.startswith("The page takes more than 384 MB when it is parsed; read page.html or page.body")
    assert grown < 512


@on_linux
def test_a_short_page_is_parsed_in_one_go_since_it_cannot_take_much():
    said, grown = measured("bomb(20_000)")
    assert said == []
    assert grown < 384


@on_linux
def test_attributes_added_to_the_root_again_and_again_are_bounded_too():
    said, grown = measured("''.join(f'<html a{n}>' for n in range(200_000))")
    assert "takes more than" in said[0]
    assert grown < 512


@pytest.mark.skipif(not can_limit_memory(), reason="needs a kernel that limits memory")
@pytest.mark.parametrize("length", [100, 40_000, 1_500_000])
def test_an_ordinary_page_is_parsed_in_one_go(length, monkeypatch):
    monkeypatch.setattr(tree, "_parse_in_chunks", lambda text: pytest.fail("parsed in chunks"))
    assert parse_html(PARAGRAPH * (length // len(PARAGRAPH) + 1)).select_one("a") is not None


def test_a_page_is_parsed_in_chunks_where_the_kernel_cannot_limit_memory(monkeypatch):
    monkeypatch.setattr(tree, "can_limit_memory", lambda: False)
    monkeypatch.setattr(tree, "_ordinary", None)
    text = PARAGRAPH * 500
    assert parse_html(text).html == parse(text).html


def test_parsing_in_chunks_gives_the_same_tree():
    text = "<title>T</title>" + PARAGRAPH * 3_000
    assert tree._parse_in_chunks(text).html == parse(text).html


def test_pieces_are_the_whole_text_and_shrink_with_the_distance():
    text = PARAGRAPH * 10_000
    chunks = list(tree._chunks(text, attributes=MAX_TEXT))
    assert "".join(chunks) == text
    assert max(map(len, chunks[-20:-1])) < max(map(len, chunks[:20]))


def test_time_is_bounded_where_memory_cannot_be_read(monkeypatch):
    monkeypatch.setattr(tree, "can_limit_memory", lambda: False)
    monkeypatch.setattr(tree.os, "open", lambda *args: (_ for _ in ()).throw(OSError()))
    assert parse_html(PARAGRAPH * 5_000).select_one("a") is not None
    monkeypatch.setattr(tree, "MAX_SECONDS", 0.0)
    with pytest.raises(ParseFailed, match="takes more than 0 s to parse"):
        parse_html(PARAGRAPH * 5_000)
