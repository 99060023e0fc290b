"""Structured data, tables and feeds of a page, also of hostile ones."""

import pytest

from shoal.core.errors import ParseFailed
from shoal.core.http import Headers, Response
from shoal.core.model import Task
from shoal.scrape.page import Page

URL = "https://example.com/shop/"


def page(html, kind="text/html"):
    body = html.encode()
    return Page(
        Response(url=URL, status=200, headers=Headers([("content-type", kind)]), body=body), Task(url=URL)
    )


LD = """
<script type="application/ld+json">
{"@graph": [{"@type": "Product", "name": "A"}, {"@type": ["Offer", "X"]}]}</script>
<script type="application/ld+json">{broken</script>
<script type="application/ld+json">[{"@type": "https://schema.org/Product", "name": "B"}, 7]</script>
"""


def test_the_objects_of_all_scripts_are_one_list():
    assert [one.get("name") for one in page(LD).jsonld()] == ["A", None, "B"]
    assert [one["name"] for one in page(LD).jsonld("Product")] == ["A", "B"]
    assert page(LD).jsonld("X") == [{"@type": ["Offer", "X"]}]
    assert page("<p>no").jsonld() == []


MICRO = """
<div itemscope itemtype="https://schema.org/Book" itemid="urn:1"><b itemprop=name>A <i>B</i></b>
<a itemprop=url href=x>l</a>
<div itemprop=author itemscope><i itemprop=name>J</i><i itemprop=name>K</i></div></div>
"""


def test_microdata_has_lists_of_values():
    book = {
        "@type": "https://schema.org/Book",
        "@id": "urn:1",
        "name": ["A B"],
        "url": ["https://example.com/shop/x"],
        "author": [{"name": ["J", "K"]}],
    }
    assert page(MICRO).microdata() == page(MICRO).microdata("Book") == [book]
    assert page(MICRO).microdata("Car") == []


def levels(count):
    """Return items that each refer twice to the next level."""
    inner = "".join(
        f"<div id=l{n}>" + f"<p itemprop=x itemscope itemref=l{n + 1}></p>" * 2 + "</div>"
        for n in range(count)
    )
    return f"<div itemscope itemref=l0></div>{inner}<b id=l{count} itemprop=y>t</b>"


@pytest.mark.parametrize(
    "html",
    [
        levels(30),
        "<div id=b>" + "<i itemprop=p>x</i>" * 3000 + "</div>" + "<div itemscope itemref=b></div>" * 201,
        "<div itemscope>" + "<div itemprop=a>" * 500 + "x" * 500_000,
    ],
    ids=["levels", "references", "nested values"],
)
def test_microdata_that_repeats_the_page_again_and_again_is_refused(html):
    with pytest.raises(ParseFailed, match="repeats parts of the page too often"):
        page(html).microdata()


def test_an_item_may_refer_to_itself_and_to_many_small_parts():
    loop = "<div itemscope id=a itemref='a b'></div><div id=b><b itemprop=q>1</b></div>"
    assert page(loop).microdata() == [{"q": ["1"]}]
    parts = [f"<i id=p{n} itemprop=p>{n}</i><div itemscope itemref=p{n}></div>" for n in range(300)]
    assert [item["p"] for item in page("".join(parts)).microdata()] == [[str(n)] for n in range(300)]
    assert len(page(levels(3)).microdata()) == 1


HEAD = """<html lang=en><title> The  title </title><meta name=Description content="D">
<link rel=canonical href=/c>
<meta property=og:title content=OT><meta property=og:image content=/i.png><meta name=author content="">"""


def test_metadata_is_what_the_page_has():
    assert page(HEAD).metadata() == {
        "title": "The title",
        "description": "D",
        "canonical": "https://example.com/c",
        "language": "en",
        "image": "https://example.com/i.png",
    }
    assert page(HEAD).opengraph() == {"title": "OT", "image": "https://example.com/i.png"}
    assert page("<p>no").metadata() == {} and page("<p>no").opengraph() == {}


@pytest.mark.parametrize(
    ("html", "rows"),
    [
        ("<tr><th>a<th>b<tr><td>1<td>2<tr><td>3", [{"a": "1", "b": "2"}, {"a": "3", "b": ""}]),
        ("<thead><tr><td>a<td>a<td></thead><tr><td>1<td>2<td>3", [{"a": "1", "a 2": "2", "3": "3"}]),
        ("<tr><td>1<td colspan=2>2", [{"1": "1", "2": "2", "3": "2"}]),
        (
            "<tr><th>a<th>b<tr><td rowspan=2>1<td>2<tr><td>3<tr><td>4<td>5",
            [{"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {"a": "4", "b": "5"}],
        ),
        ("<tr><th>a<tr><td><table><tr><td>in<tr><td>ner</table>", [{"a": "in ner"}]),
        ("<tr><td rowspan=0>1<td colspan=x>2<tr><td>3", [{"1": "1", "2": "2"}, {"1": "1", "2": "3"}]),
        ("", []),
    ],
)
def test_a_table_has_rows_by_the_names_of_its_columns(html, rows):
    assert page(f"<table>{html}</table>").table() == rows
    assert page("<p>no").table() == []


@pytest.mark.parametrize(
    "html",
    [
        "<tr>" + "<td colspan=1000 rowspan=65534>x" * 20_000,
        "<tr><td colspan=1000 rowspan=65534>x" * 5_000,
        "<tr>" + "<td>x" * 2_000,
    ],
    ids=["wide", "long", "columns"],
)
def test_a_table_that_grows_without_end_is_refused(html):
    with pytest.raises(ParseFailed, match="The table has more than"):
        page(f"<table>{html}").table()


RSS = """<?xml version="1.0"?><rss version="2.0"><channel><title>T</title><link>https://a.test/</link>
<item><title>One &amp; 1</title><link>1</link><guid>g</guid><pubDate>Mon, 01 Jan 2024</pubDate>
<description><![CDATA[<p>x</p>]]></description></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><entry><title>E</title>
<link href="https://a.test/e"/><id>i</id><author><name>J</name></author></entry></feed>"""


def test_feeds_are_read_in_their_usual_forms():
    rss = page(RSS, "application/rss+xml").feed()
    assert (rss["type"], rss["title"], rss["link"]) == ("rss", "T", "https://a.test/")
    (entry,) = rss["entries"]
    assert entry == {
        "title": "One & 1",
        "link": "https://example.com/shop/1",
        "id": "g",
        "published": "Mon, 01 Jan 2024",
        "updated": None,
        "author": None,
        "summary": "<p>x</p>",
        "content": None,
    }
    (entry,) = page(ATOM, "application/atom+xml").feed()["entries"]
    assert (entry["title"], entry["link"], entry["author"]) == ("E", "https://a.test/e", "J")


def test_a_feed_that_is_not_well_formed_is_read_too():
    assert page(RSS.replace("&amp;", "&nbsp;")).feed()["entries"][0]["title"].startswith("One")


ENTITIES = """<!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">]>
<rss version="2.0"><channel><title>&b;&c;</title></channel></rss>"""


def test_entities_of_a_feed_are_not_expanded():
    assert "root" not in str(page(ENTITIES).feed()) and "aaa" not in page(ENTITIES).feed()["title"]


@pytest.mark.parametrize("html", ["<p>no", "", "{}", "<a>" * 10_000])
def test_what_is_no_feed_is_refused(html):
    with pytest.raises(ParseFailed, match=r"no (RSS, Atom or )?JSON [Ff]eed"):
        page(html).feed()
