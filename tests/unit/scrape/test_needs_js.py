"""Which pages need JavaScript."""

import pytest

from shoal.core.http import Headers, Response
from shoal.core.model import Task
from shoal.scrape.page import Page, needs_javascript

TEXT = "A page with something to say. " * 20
SCRIPT = "<script src=app.js></script>"


def page(html, kind="text/html"):
    url = "https://shop.test/"
    response = Response(url=url, status=200, headers=Headers([("Content-Type", kind)]), body=html.encode())
    return Page(response, Task(url=url))


@pytest.mark.parametrize(
    "html",
    [
        f"<div id=root></div>{SCRIPT}",
        f"<title>Shop</title><body><app-root></app-root>{SCRIPT}",
        f"<body><noscript>You need to enable JavaScript. {TEXT}</noscript><div id=x></div>{SCRIPT}",
        f"<header>The shop of everything, since 1999. Come in</header><div id=app></div>{SCRIPT}",
        f"<body>Loading…{SCRIPT}<style>{TEXT}</style>",
        f"<p>This page has little to say, but asks.<noscript>Please turn on JavaScript</noscript>{SCRIPT}",
    ],
)
def test_an_empty_page_with_scripts_needs_a_browser(html):
    assert needs_javascript(page(html))


@pytest.mark.parametrize(
    "html",
    [
        f"<div id=root><h1>Lamp</h1><p>{TEXT}</p></div>{SCRIPT}",
        f"<p>{TEXT}</p>{SCRIPT}<noscript>Please turn on JavaScript</noscript>",
        "<p>short</p>",
        f"<p>{TEXT}</p>",
        "",
    ],
)
def test_a_page_with_something_to_say_needs_none(html):
    assert not needs_javascript(page(html))


def test_what_is_no_page_needs_none():
    assert not needs_javascript(page("{}", "application/json"))


def test_a_selector_alone_decides():
    whole = f"<div id=root><h1>Lamp</h1><p>{TEXT}</p></div>{SCRIPT}"
    assert needs_javascript(page(whole), ".price")
    assert not needs_javascript(page("<b class=price>1</b>" + SCRIPT), ".price")
