"""HTTP first, a browser where it is needed; and pages that are not returned are released."""

from datetime import timedelta

import pytest

from shoal.core.errors import NeedsBrowser
from shoal.core.http import Request, Response
from shoal.core.model import SECOND, ZERO
from shoal.fetch.browser.auto import AutoFetcher, RenderingFetcher
from shoal.fetch.named import ChoosingFetcher

URL = "https://shop.test/p/1"


class Fetching:
    def __init__(self, body=b"", status=200):
        self.asked, self.body, self.status, self.closed = [], body, status, 0

    async def fetch(self, request):
        self.asked.append(request)
        return Response(url=request.url, status=self.status, body=self.body)

    async def close(self):
        self.closed += 1


class Known(set):
    async def need_browser(self, kind):
        return kind in self

    async def learn(self, kind):
        self.add(kind)


def auto(http, browser, known, gap=ZERO, **more):
    return AutoFetcher(http, browser, known, lambda response: response.body == b"empty", gap=gap, **more)


async def test_a_page_that_is_whole_needs_no_browser():
    http, browser = Fetching(b"whole"), Fetching()
    assert (await auto(http, browser, Known()).fetch(Request(url=URL))).body == b"whole"
    assert not browser.asked


async def test_a_page_that_scripts_write_is_asked_for_again_and_others_of_its_kind_at_once():
    http, browser, known = Fetching(b"empty"), Fetching(b"rendered"), Known()
    fetcher = auto(http, browser, known)
    assert (await fetcher.fetch(Request(url=URL))).body == b"rendered"
    assert (await fetcher.fetch(Request(url="https://shop.test/p/2"))).body == b"rendered"
    assert (await fetcher.fetch(Request(url="https://shop.test/c/2"))).body == b"rendered"
    assert [request.url[-4:] for request in http.asked] == ["/p/1", "/c/2"]
    assert known == {"shop.test/p/*", "shop.test/c/*"}


async def test_what_is_sent_goes_by_http_whatever_comes_back():
    http, browser, asked = Fetching(b"empty"), Fetching(b"rendered"), []
    request = Request(url=URL, post=b"q=1", on_send=lambda: asked.append(1))
    assert (await auto(http, browser, Known({"shop.test/p/*"})).fetch(request)).body == b"empty"
    assert asked == [1] and not browser.asked


async def test_with_a_gap_it_goes_back_to_the_queue_for_so_long():
    http, browser = Fetching(b"empty"), Fetching(b"rendered")
    fetcher = auto(http, browser, Known(), gap=5 * SECOND)
    with pytest.raises(NeedsBrowser) as caught:
        await fetcher.fetch(Request(url=URL))
    assert caught.value.after == 5 * SECOND
    assert not browser.asked
    assert (await fetcher.fetch(Request(url=URL))).body == b"rendered"
    assert len(http.asked) == 1


async def test_what_may_not_go_back_waits_here():
    http, browser = Fetching(b"empty"), Fetching(b"rendered")
    fetcher = auto(http, browser, Known(), gap=timedelta(milliseconds=10))
    assert (await fetcher.fetch(Request(url=URL, on_sent=bool))).body == b"rendered"


async def test_an_error_page_is_no_reason_for_a_browser():
    http, browser = Fetching(b"empty", status=503), Fetching()
    assert (await auto(http, browser, Known()).fetch(Request(url=URL))).status == 503
    assert not browser.asked


async def test_the_moment_of_the_request_is_reported_once():
    told = []
    http, browser, known = Fetching(b"empty"), Fetching(b"rendered"), Known()
    fetcher = auto(http, browser, known)
    await fetcher.fetch(Request(url=URL, on_send=lambda: told.append("http")))
    assert told == ["http"] and browser.asked[0].on_send is None
    await fetcher.fetch(Request(url=URL, on_send=lambda: told.append("browser")))
    browser.asked[1].on_send()  # as a browser does when it has a tab
    assert told == ["http", "browser"]


class Opened:
    def __init__(self):
        self.gone = 0

    def release(self):
        self.gone += 1


class Opening(Fetching):
    """A browser, as far as it opens pages."""

    def __init__(self):
        super().__init__()
        self.opened = []

    async def fetch(self, request):
        self.asked.append(request)
        self.opened.append(Opened())
        request.render(self.opened[-1])
        return Response(url=request.url, status=200, live=self.opened[-1])


class Asking:
    """A fetcher in between: it discards responses, or sends again."""

    def __init__(self, inner, times, error=None):
        self._inner, self._times, self._error = inner, times, error

    async def fetch(self, request):
        for _ in range(self._times):
            response = await self._inner.fetch(request)
        if self._error:
            raise self._error
        return response

    async def close(self):
        await self._inner.close()


async def test_a_page_stays_open_for_the_step_that_gets_it_and_is_closed_otherwise():
    browser = Opening()
    response = await RenderingFetcher(Asking(ChoosingFetcher(Fetching(), {"browser": browser}), 3)).fetch(
        Request(url=URL)
    )
    assert [opened.gone for opened in browser.opened] == [1, 1, 0]
    assert response.live is browser.opened[-1]


async def test_no_page_stays_open_when_an_answer_is_turned_down():
    browser = Opening()
    fetcher = RenderingFetcher(
        Asking(ChoosingFetcher(Fetching(), {"browser": browser}), 1, LookupError("no"))
    )
    with pytest.raises(LookupError):
        await fetcher.fetch(Request(url=URL))
    assert [opened.gone for opened in browser.opened] == [1]


async def test_who_asks_is_the_browser_only_where_a_page_is_to_be_rendered():
    http, browser = Fetching(b"plain"), Opening()
    either = ChoosingFetcher(http, {"browser": browser})
    assert (await either.fetch(Request(url=URL))).body == b"plain"
    await RenderingFetcher(either).fetch(Request(url=URL))
    assert (len(http.asked), len(browser.asked)) == (1, 1)
    await either.close()
    assert (http.closed, browser.closed) == (1, 1)
