"""Every link within the repository leads somewhere, and the index leads to every page."""

import pytest

from tests.unit.docs.pages import ALL, DOCS, ROOT, anchors, links, name_of

INDEX = DOCS / "README.md"


def broken(page, text):
    """Yield the links of a page that lead nowhere."""
    for link in links(text):
        place, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / place).resolve()
        if (
            not target.exists()
            or not target.is_relative_to(ROOT)
            or (anchor and anchor not in anchors(target.read_text() if place else text))
        ):
            yield link


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_every_link_leads_somewhere(page):
    assert list(broken(page, page.read_text())) == []


def test_the_index_leads_to_every_page_but_the_decisions():
    led_to = {(DOCS / link).resolve() for link in links(INDEX.read_text())}
    pages = {page for page in DOCS.rglob("*.md") if page.parent.name != "decisions"} - {INDEX}
    assert {name_of(page) for page in pages - led_to} == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[a](gone.md)", ["gone.md"]),
        ("[a](tutorial.md#no-such-heading)", ["tutorial.md#no-such-heading"]),
        ("[a](#here)\n\n## Here", []),
        ("[a](#there)\n\n## Here", ["#there"]),
        ("[a](tutorial.md#run-it) and `[b](gone.md)`\n```\n[c](gone.md)\n```\n", []),
        ("[a](../../elsewhere)", ["../../elsewhere"]),
    ],
)
def test_a_link_that_leads_nowhere_would_be_noticed(text, found):
    assert list(broken(INDEX, text)) == found
