"""The main content of a page, without its navigation."""

import json

import pytest

from shoal.core.http import Response
from shoal.core.model import Task
from shoal.scrape.page import Page

URL = "https://news.example.com/2026/lamp.html"
PROSE = "The lamp, which was lit in March, shines over the harbour, and ships, large and small, see it. "
NAVIGATION = "<nav>" + "".join(f"<a href=/{n}>Section {n}</a> " for n in range(30)) + "</nav>"
SECTIONS = "".join(f"<section><h2>Part {n}</h2><p>{PROSE * 3}</p></section>" for n in range(4))
HEAD = "<html lang=en><head><title>Site</title><meta name=author content=Ann></head><body>"


def page(body, head=HEAD):
    return Page(Response(url=URL, status=200, body=f"{head}{body}".encode()), Task(url=URL))


def test_an_article_has_all_its_sections_and_no_navigation():
    shown = page(
        f"{NAVIGATION}<main><h1>A lamp</h1><time datetime=2026-03-01>1 March</time>{SECTIONS}</main>"
    )
    article = shown.article()
    assert {name: article[name] for name in ("title", "author", "language")} == {
        "title": "A lamp",
        "author": "Ann",
        "language": "en",
    }
    assert article["date"] == "2026-03-01"
    assert all(f"Part {number}" in article["text"] for number in range(4))
    assert "Section 7" not in article["text"]


def test_an_article_is_all_that_the_page_calls_its_main_element():
    links = "".join(f"<p><a href=/f/{n}>function number {n}</a> does it</p>" for n in range(40))
    article = page(f"{NAVIGATION}<div role=main>{links}<section>{SECTIONS}</section></div>").article()
    assert "function number 7 does it" in article["text"] and "Part 3" in article["text"]
    listing = "<div role=main>" + "".join(f"<a href=/{n}>News of day {n}</a> " for n in range(300))
    assert "News of day 7" not in page(f"{listing}<section>{SECTIONS}</section></div>").article()["text"]


def test_what_the_page_does_not_say_is_taken_from_its_data():
    data = {"@type": "NewsArticle", "author": [{"name": "Bo"}], "datePublished": "2026-03-02"}
    script = f"<script type=application/ld+json>{json.dumps(data)}</script>"
    article = page(f"<h1>A lamp</h1>{SECTIONS}", head=f"<html><head>{script}</head><body>").article()
    assert (article["author"], article["date"], article["language"]) == ("Bo", "2026-03-02", None)


@pytest.mark.parametrize("body", ["", "<p>", "<a href=/>Home</a>"])
def test_a_page_without_content_has_no_text(body):
    assert page(body, head="").article()["text"] == ""


def test_markdown_is_of_a_selector_or_of_the_main_content_with_absolute_links():
    shown = page(
        f"{NAVIGATION}<main>{SECTIONS}<p><a href='../a?b=1'>more, of it</a> <img src=i.png alt=Lamp></p>"
        "<ul><li>one<li>two</ul></main>"
    )
    text = shown.markdown()
    assert "## Part 1" in text and "Section 7" not in text
    assert "[more, of it](https://news.example.com/a?b=1)" in text
    assert "![Lamp](https://news.example.com/2026/i.png)" in text
    assert shown.markdown("ul") == "- one\n- two"
    assert shown.markdown(".missing") == ""
    assert "[Section 7](https://news.example.com/7)" in shown.markdown("body")
    assert shown.attr("main a", "href") == "../a?b=1"


def test_an_element_that_holds_paragraphs_and_is_no_block_is_markdown_too():
    text = "<a><b><p >sts are slowed or paused.<p><a href=s>l"
    assert page(text, head="").markdown() == "**sts are slowed or paused.**"  # once the process crashed


def test_markdown_has_no_links_that_run_scripts():
    links = ["javascript:x()", " JaVa&#10;Script:x()", "vbscript:x", "data:text/html,x", "&#1;javascript:x"]
    text = page("".join(f"<p><a href='{link}'>link</a>" for link in links)).markdown("body")
    assert text.count("link") == len(links) and "script" not in text.lower() and "data:" not in text
    kept = [
        "mailto:a@b.example",
        "https://b.example/x#part",
        "http://[invalid",
        "https://b.example/?javascript:",
        "data:image/png;base64,AA",
    ]
    text = page("".join(f"<p><a href='{link}'>link</a>" for link in kept)).markdown("body")
    assert [link in text for link in kept] == [True] * 5


@pytest.mark.parametrize(
    "body",
    ["<div>" * 50_000 + "a, b", "<table><tr><td>" * 2_000, "<blockquote>" * 510 + "a<br>" * 20_000],
    ids=["nested", "tables", "quotes"],
)
def test_hostile_pages_stay_small(body):
    shown = page(body)
    assert len(shown.markdown("body")) < 100 * len(body) / 2
    assert len(shown.article()["text"]) < 10 * len(body)
