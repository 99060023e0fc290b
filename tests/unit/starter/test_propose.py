"""What is proposed from a page, and that the code of it works on that page."""

import pytest

from shoal.core.errors import ConnectFailed, InvalidInput
from shoal.starter.project import propose_scraper
from shoal.starter.propose import propose
from shoal.testing import page

URL = "https://site.example/list/"
BOOK = """<li class="col-xs-6"><article class="product_pod">
<a href="b{0}.html"><img class="thumbnail" src="{0}.jpg"></a>
<h3><a href="b{0}.html" title="A Light in the Attic, part {0}">A Light in the ...</a></h3>
<p class="price_color">£{0}.77</p><p class="instock availability">In stock</p>
<button>Buy</button>
</article></li>"""
CATEGORY = '<li><a href="/category/{0}">Category {0} of many</a></li>'
QUOTE = """<div class="quote">
<span class="text" itemprop="text">Saying {0} is long and wise.</span>
<span>by <small class="author" itemprop="author">Author {0}</small></span>
<div class="tags">Tags: <a class="tag" href="/tag/a">a</a>
<a class="tag" href="/tag/{0}">b{0}</a></div></div>"""
STORY = """<tr class="athing"><td class="rank">{0}.</td><td><span class="titleline">
<a href="https://other{0}.example/">A story that many people talk about, number {0}</a></span></td></tr>
<tr><td></td><td class="subtext"><span class="score">{0} points</span>
<a href="user?id={0}">u{0}</a></td></tr>"""
HASHED = """<div class="css-1x2y3z4"><a href="/p/{0}" class="css-9a8b7c6"><h2>Headline {0}</h2></a>
<time datetime="2026-01-{0}">January</time></div>"""
PRODUCT = """<script type="application/ld+json">{"@type": "Product", "name": "Lamp", "sku": "A1",
"offers": {"@type": "Offer", "price": "12.5", "priceCurrency": "EUR"}}</script>
<div class="reviews">""" + "".join(f'<p class="review">Nice <b>{n}</b> times</p>' for n in range(9))


def many(markup, count=20):
    return "".join(markup.replace("{0}", str(number)) for number in range(10, 10 + count))


LISTINGS = {
    "books": (
        f"<aside><ul class='nav-list'>{many(CATEGORY, 50)}</ul></aside><ol>{many(BOOK)}</ol>"
        "<ul><li class='next'><a href='page-2.html'>next</a></li></ul>",
        {
            "image": f"{URL}10.jpg",
            "title": "A Light in the Attic, part 10",
            "price": "£10.77",
            "availability": "In stock",
            "url": f"{URL}b10.html",
        },
        f"{URL}page-2.html",
    ),
    "quotes": (
        f"{many(QUOTE)}<a rel='next' href='?page=2'>more</a>",
        {"text": "Saying 10 is long and wise.", "author": "Author 10", "tags": ["a", "b10"]},
        f"{URL}?page=2",
    ),
    "stories": (
        f"<table><tr><td><table>{many(STORY)}</table></td></tr></table><a href='?p=2'>Older posts</a>",
        {
            "rank": "10.",
            "title": "A story that many people talk about, number 10",
            "url": "https://other10.example/",
        },
        f"{URL}?p=2",
    ),
    "table": (
        "<table class='cities'><tr><th>City</th><th>People</th></tr>"
        + many("<tr><td><a href='/{0}'>City {0}</a></td><td>{0}000</td></tr>")
        + "</table>",
        {"city": "City 10", "people": "10000", "url": "https://site.example/10"},
        None,
    ),
    "hashed classes": (
        f"<section class='stories'>{many(HASHED)}</section>",
        {"title": "Headline 10", "date": "2026-01-10", "url": "https://site.example/p/10"},
        None,
    ),
}


def no_page(url):
    raise ConnectFailed("no route")


def run(html, load=no_page):
    subject = page(html, url=URL)
    proposed = propose_scraper("found", subject, load)
    names = {}
    exec(compile(proposed.code, "found.py", "exec"), names)
    return proposed, names["found"].first.harvest(subject)


@pytest.mark.parametrize("name", LISTINGS)
def test_the_items_of_a_listing_are_found_with_their_fields_and_the_next_page(name):
    html, first, following = LISTINGS[name]
    proposed, found = run(html)
    assert (len(found.items), found.items[0]) == (20, first)
    assert [task.url for task in found.follow] == ([following] if following else [])
    assert (proposed.items, proposed.links) == (20, len(found.follow))


def test_the_structured_data_of_a_page_is_its_item():
    _, found = run(PRODUCT)
    data = {"name": "Lamp", "sku": "A1", "price": "12.5", "price_currency": "EUR"}
    assert found.items == [{"url": URL, **data}]


def test_items_with_data_on_pages_of_their_own_are_followed():
    asked = []
    proposed, found = run(LISTINGS["books"][0], lambda url: asked.append(url) or page(PRODUCT, url=url))
    assert asked == [f"{URL}b10.html"]
    assert len(found.follow) == 21 and found.follow[0].step == "item_page"
    assert 'page.jsonld("Product")' in proposed.code


def test_a_page_that_repeats_nothing_gives_its_text():
    _, found = run("<title>About us</title><p>We make lamps, and have done so for long.</p>")
    assert found.items[0]["title"] == "About us" and "lamps" in found.items[0]["text"]


CHAPTERS = many("<span class='chapter'><a href='c{0}.html'>Chapter {0} of the manual</a></span>")
NEXT = '<link rel="next" href="c10.html">'


@pytest.mark.parametrize(
    "start", [f"{NEXT}<div>{CHAPTERS}</div>", f"{NEXT}<h1>Manual</h1><a href='c10.html'>Begin</a>"]
)
def test_all_pages_of_a_manual_are_items(start):
    proposed, found = run(start, lambda url: page(f"{NEXT}<h1>Chapter</h1><p>Text</p>", url=url))
    assert len(found.items) == 1 and found.follow[0].url == f"{URL}c10.html"
    assert {task.step for task in found.follow} == {"item_page"} and f'scope="{URL}*"' in proposed.code


def test_a_first_item_that_cannot_be_read_is_said():
    assert "no route" in run(LISTINGS["books"][0])[0].says


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        (page("no", url=URL, status=403), "answers 403"),
        (page("{}", url=URL, headers={"content-type": "application/json"}), "--template api"),
    ],
)
def test_no_page_is_no_proposal(subject, message):
    with pytest.raises(InvalidInput, match=message):
        propose_scraper("found", subject, no_page)


@pytest.mark.parametrize("hostile", ['"', "'", "\\", "{", "}", "\n", '"""', "\u2028", "]", ":has("])
def test_names_of_a_hostile_page_stay_within_their_literals(hostile):
    name = f"x{hostile}raise SystemExit"
    html = (
        f'<div class="{name}"><p class="{name}" itemprop="{name}">'.replace("\n", "&#10;")
        + many('<div class="row-1"><a href="/{0}">Text {0}</a><b class=y>{0}</b></div>')
        + f'</div><a href=x>next {name}</a><script type="application/ld+json">'
        + '{"@type": "Thing", "a\\"]+exit()+[\\"": 1, "name": "n"}</script>'
    )
    run(html)


def test_a_deep_and_a_wide_page_are_proposed_in_time():
    propose(page("<div class='a'>" * 400 + many("<li class='b'>x <i>{0}</i></li>", 5000), url=URL))
