"""Someone who knows Scrapy or httpx is told what to write, and what works in both works here."""

import pytest

from shoal import Scraper, Task
from shoal.core.errors import InvalidInput, InvalidItem, InvalidSetting, InvalidTask

HTML = "<base href=/shop/><h1>Red <b>lamp</b></h1><a href=/1>one</a>"


def run(function, **more):
    """Return what a step yields for a page, beside a step called detail."""
    shop = Scraper("shop")
    step = shop.step(name="parse")(function)

    @shop.step
    def detail(page):
        yield {"payload": dict(page.payload)}

    return shop.parse(HTML, url="https://example.com/list", step=step, **more)


@pytest.mark.parametrize("word", ["callback", "cb_kwargs", "meta", "formdata", "dont_filter", "errback"])
def test_a_keyword_of_scrapy_is_refused_with_the_right_one(word):
    def parse(page):
        yield page.follow("/1", **{word: 1})

    with pytest.raises(InvalidInput, match=rf"{word}= is a word of Scrapy\. Write "):
        run(parse)


@pytest.mark.parametrize(
    ("word", "instead"),
    [
        ("data", "form="),
        ("content", "body="),
        ("auth", "tokens"),
        ("allow_redirects", "scope"),
    ],
)
def test_an_option_of_an_http_client_is_refused_with_the_right_one(word, instead):
    def parse(page):
        yield page.follow("/1", **{word: 1})

    with pytest.raises(InvalidInput, match=rf"{word}= is no option of a request\. Write .*{instead}"):
        run(parse)


@pytest.mark.parametrize(
    ("href", "params", "url"),
    [
        ("/1", {"page": 2, "q": "a b"}, "https://example.com/1?page=2&q=a+b"),
        ("/1?x=1#top", {"tag": ["a", "b"], "no": None}, "https://example.com/1?x=1&tag=a&tag=b"),
        ("/1", {}, "https://example.com/1"),
        ("", {"q": 1}, "https://example.com/shop/?q=1"),
        ("mailto:a@b.c", {"q": 1}, None),
        (None, {"q": 1}, None),
    ],
)
def test_params_are_added_to_the_query_of_the_url(href, params, url):
    def parse(page):
        yield page.follow(href, params=params)
        yield page.post(href, params=params, json=1)

    assert {task.url for task in run(parse).follow} == ({url} if url else set())
    with pytest.raises(InvalidInput, match="params must be names and values"):
        run(lambda page: page.follow("/1", params="q=1"))


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("page.xpath('//h1/b/text()').get()", "lamp"),
        ("page.xpath('//h1//text()').getall()", ["Red ", "lamp"]),
        ("page.xpath('//a/@href').extract_first()", "/1"),
        ("page.xpath('//i/text()').get('none')", "none"),
        ("page.xpath('string(//h1)').get()", "Red lamp"),
        ("page.css('h1').xpath('./b/text()').get()", "lamp"),
        ("page.css('h1').css('b')[0].text()", "lamp"),
        ("page.urljoin('one')", "https://example.com/shop/one"),
        ("page.urljoin('mailto:a@b.c')", "mailto:a@b.c"),
        ("page.text()", "Red lamp one"),
        ("type(page.body)", bytes),
    ],
)
def test_what_has_one_meaning_works(code, value):
    found = []
    run(lambda page: found.append(eval(code)))
    assert found == [value]


@pytest.mark.parametrize("word", ["get", "getall", "extract", "extract_first"])
def test_elements_of_an_xpath_are_no_text(word):
    with pytest.raises(InvalidInput, match=r"selects elements \(h1\).*/text\(\)"):
        run(lambda page: getattr(page.xpath("//h1"), word)())


def test_a_method_that_was_not_called_is_named():
    def parse(page):
        yield {"text": page.text}

    with pytest.raises(InvalidItem, match=r"it holds the function 'text'; call it: text\(…\)"):
        run(parse)


@pytest.mark.parametrize(
    ("code", "instead"),
    [
        ("page.css('h1::text')", r"page\.text\('h1'\) .*\[node\.text\(\) for node in page\.css\('h1'\)\]"),
        ("page.text('::text')", r"page\.text\('\*'\)"),
        ("page.css('a::attr(href)')", r"page\.attr\('a', 'href'\) .*\[node\.attr\('href'\)"),
        ("page.css_first('h1').css('b::text')", r"page\.text\('b'\)"),
    ],
)
def test_a_selector_of_scrapy_is_refused_with_the_line_to_write(code, instead):
    def parse(page):
        eval(code)

    with pytest.raises(InvalidInput, match=f"Not a CSS selector: .*: write {instead}"):
        run(parse)


@pytest.mark.parametrize(
    ("code", "instead"),
    [
        ("page.css('h1').get()", "page.text"),
        ("page.css('h1').re_first('x')", "re.search"),
        ("page.css('a').attrib['href']", "page.attr"),
        ("page.xpath('//h1/text()').re('x')", "re.findall"),
        ("page.css('h1').extract()", r"\[node.text\(\) for node"),
        ("page.status_code", "page.status"),
        ("page.find('h1')", "page.css_first"),
        ("page.meta['rank']", "page.payload"),
        ("page.follow_all('a')", "for link in page.links"),
    ],
)
def test_a_method_of_scrapy_is_missing_with_what_to_write(code, instead):
    def parse(page):
        eval(code)

    with pytest.raises(AttributeError, match=f"In Shoal, write: .*{instead}"):
        run(parse)


def test_other_missing_attributes_are_reported_as_usual():
    def parse(page):
        assert not hasattr(page, "title") and not hasattr(page.css("h1"), "title")
        assert page.css("h1") == list(page.css("h1"))

    run(parse)


def test_a_setting_of_scrapy_is_refused_with_the_right_one():
    with pytest.raises(InvalidSetting, match=r"start_urls is a word of Scrapy\. Write start="):
        Scraper("shop", start_urls=["https://example.com"])
    with pytest.raises(InvalidSetting, match="Write delay="):
        Scraper("shop", DOWNLOAD_DELAY=1)


def test_a_task_takes_a_step_and_a_url_relative_to_the_page():
    shop = Scraper("shop")

    @shop.step
    def listing(page):
        yield Task(url="lamp?from=http://x/", step=detail)
        yield Task(url="//other.example/x", step="detail")
        yield Task(url="HTTPS://Example.com/A")

    @shop.step
    def detail(page):
        pass

    found = [(task.url, task.step) for task in shop.parse(HTML, url="https://example.com/list").follow]
    assert found == [
        ("https://example.com/shop/lamp?from=http://x/", "detail"),
        ("https://other.example/x", "detail"),
        ("https://example.com/A", "listing"),
    ]
    assert Task(step=detail).step == "detail"


@pytest.mark.parametrize("url", ["mailto:a@b.c", "", "http://[bad"])
def test_a_task_with_a_url_that_cannot_be_fetched_is_refused(url):
    def parse(page):
        yield Task(url=url)

    with pytest.raises(InvalidTask):
        run(parse)


def test_a_task_with_what_is_no_step_is_refused_with_its_name():
    def parse(page):
        yield Task(url="/1", step=print)

    with pytest.raises((InvalidTask, InvalidInput), match="step"):
        run(parse)
