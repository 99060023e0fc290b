"""Redirects, cookies, credentials and the deadline, without a network."""

import asyncio
from datetime import timedelta
from itertools import product

import pytest

from shoal.core.errors import FetchTimeout, InvalidSetting, OutOfScope
from shoal.core.http import Headers, Request
from shoal.fetch.contract import Limits
from shoal.fetch.egress import Egress
from shoal.fetch.http.client import RedirectingClient

START = "https://shop.test/start"
FORBIDDEN = """
    file:///etc/passwd gopher://x/ data:text/html,x javascript:alert(1) ftp://a.test/ about:blank http://
    http://127.0.0.1/ http://[::1]/ http://2130706433/ http://user:secret@a.test/ http://a.test:99999/
"""


class Answer:
    def __init__(self, status, fields, body):
        self.status, self._fields, self._body, self.dropped = status, Headers(fields), body, False

    def first(self, name):
        return self._fields.get(name)

    def all(self, name):
        return self._fields.all(name)

    def headers(self):
        return self._fields

    async def body(self, most, on_bytes=None):
        assert not self.dropped
        return self._body

    def release(self):
        self.dropped = True


class Engine:
    """Responds from a table of URLs; a list of responses is used up one by one."""

    def __init__(self, **_):
        self.table, self.sent, self.answers, self.wait = {}, [], [], 0

    def on(self, url, status=200, body=b"page", **fields):
        pairs = [(name.replace("_", "-"), value) for name, value in fields.items()]
        self.table.setdefault(url, []).append((status, pairs, body))

    async def send(self, target, headers, post, method, request):
        await asyncio.sleep(self.wait)
        self.sent.append((target.url, dict(headers)))
        replies = self.table[target.url]
        self.answers.append(Answer(*(replies.pop(0) if len(replies) > 1 else replies[0])))
        return self.answers[-1]

    async def close(self):
        pass

    @property
    def urls(self):
        return [url for url, _ in self.sent]


async def everywhere(name):
    return ["8.8.8.8"]


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def fetcher(engine):
    return RedirectingClient(engine, Egress(lookup=everywhere), Limits())


def fetch(fetcher, url=START, **more):
    return fetcher.fetch(Request(url=url, **more))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed(engine, fetcher, status):
    engine.on(START, status, Location="/next#part")
    engine.on("https://shop.test/next", 301, Location="//other.test")
    engine.on("https://other.test/")
    response = await fetch(fetcher)
    assert (response.url, response.body) == ("https://other.test/", b"page")
    assert response.redirects == (START, "https://shop.test/next")
    assert [answer.dropped for answer in engine.answers] == [True, True, False]


@pytest.mark.parametrize("status", [200, 201, 300, 304, 305, 306, 399, 404])
async def test_another_status_leads_nowhere(engine, fetcher, status):
    engine.on(START, status, Location="/next")
    assert (await fetch(fetcher)).status == status


async def test_a_redirect_without_a_location_is_the_response(engine, fetcher):
    engine.on(START, 302)
    assert (await fetch(fetcher)).status == 302


async def test_ten_redirects_are_followed_and_no_more(engine, fetcher):
    for number in range(20):
        engine.on(f"https://shop.test/{number}", 302, Location=f"/{number + 1}")
    engine.on("https://shop.test/20")
    assert len((await fetch(fetcher, "https://shop.test/10")).redirects) == 10
    engine.sent.clear()
    with pytest.raises(OutOfScope, match="more than 10 times"):
        await fetch(fetcher, "https://shop.test/9")
    assert len(engine.sent) == 11


async def test_a_circle_is_recognised(engine, fetcher):
    engine.on(START, 302, Location="/a")
    engine.on("https://shop.test/a", 302, Location="/start")
    with pytest.raises(OutOfScope, match=r"in a loop, back to https://shop\.test/a"):
        await fetch(fetcher)
    assert len(engine.sent) <= 3


async def test_a_page_may_redirect_to_itself_with_a_cookie(engine, fetcher):
    engine.on(START, 302, Location=START, Set_Cookie="seen=1")
    engine.on(START, 200)
    assert (await fetch(fetcher)).status == 200
    assert engine.sent[1][1] == {"cookie": "seen=1"}


@pytest.mark.parametrize("location", FORBIDDEN.split())
async def test_a_redirect_to_a_forbidden_address_is_refused(engine, fetcher, location):
    engine.on(START, 302, Location=location)
    with pytest.raises(OutOfScope) as caught:
        await fetch(fetcher)
    assert engine.urls == [START]
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("next?a=b c", "https://shop.test/next?a=b%20c"),
        ("/caf\u00c3\u00a9", "https://shop.test/caf%C3%A9"),
        ("/caf\u00e9", "https://shop.test/caf%C3%A9"),
        ("  /next  ", "https://shop.test/next"),
        ("HTTPS://SHOP.TEST/next", "https://shop.test/next"),
        ("?page=2", "https://shop.test/start?page=2"),
        ("\\\\other.test\\x", "https://other.test/x"),
    ],
)
async def test_a_location_is_read_as_browsers_read_it(engine, fetcher, location, url):
    engine.on(START, 302, Location=location)
    engine.on(url)
    assert (await fetch(fetcher)).url == url


async def test_each_hop_is_announced_before_its_request(engine, fetcher):
    announced = []

    async def on_hop(url):
        announced.append((url, len(engine.sent)))

    engine.on(START, 302, Location="/a")
    engine.on("https://shop.test/a", 302, Location="/b")
    engine.on("https://shop.test/b")
    await fetch(fetcher, on_hop=on_hop)
    assert announced == [("https://shop.test/a", 1), ("https://shop.test/b", 2)]


async def test_what_the_announcement_raises_ends_the_fetch(engine, fetcher):
    async def on_hop(url):
        raise LookupError(url)

    engine.on(START, 302, Location="/a")
    with pytest.raises(LookupError, match=r"https://shop\.test/a"):
        await fetch(fetcher, on_hop=on_hop)
    assert engine.urls == [START]


SECRETS = ["Authorization", "Cookie", "X-API-Key", "X-Auth-Token", "If-None-Match", "Referer", "X-Anything"]
ELSEWHERE = {
    "a subdomain": "https://www.shop.test/next",
    "the parent": "https://test/next",
    "another port": "https://shop.test:8443/next",
    "no TLS": "http://shop.test/next",
    "another host": "https://evil.test/next",
    "a name that looks alike": "https://shop.test.evil.test/next",
}


@pytest.mark.parametrize("elsewhere", ELSEWHERE.values(), ids=ELSEWHERE)
async def test_the_callers_headers_do_not_cross_to_another_origin(engine, fetcher, elsewhere):
    for status, name in product((301, 302, 303, 307, 308), SECRETS):
        engine.table.clear()
        engine.sent.clear()
        engine.on(START, status, Location=elsewhere)
        engine.on(elsewhere)
        await fetch(fetcher, headers={name: "secret"})
        assert engine.sent == [(START, {name.lower(): "secret"}), (elsewhere, {})]


async def test_once_they_are_left_behind_they_do_not_come_back(engine, fetcher):
    engine.on(START, 302, Location="https://evil.test/")
    engine.on("https://evil.test/", 302, Location="https://shop.test/admin?delete")
    engine.on("https://shop.test/admin?delete")
    await fetch(fetcher, headers={"Authorization": "secret"})
    assert engine.sent[2][1] == {}


async def test_what_holds_no_secret_goes_everywhere(engine, fetcher):
    harmless = {"accept": "text/plain", "accept-language": "de", "user-agent": "mine"}
    engine.on(START, 302, Location="https://other.test/")
    engine.on("https://other.test/")
    await fetch(fetcher, headers={**harmless, "X-Key": "secret"})
    assert engine.sent[1][1] == harmless


@pytest.mark.parametrize(
    "name", ["Host", "host", "Proxy-Authorization", "Transfer-Encoding", "Content-Length", "Connection", "TE"]
)
async def test_what_the_fetcher_sets_is_not_the_callers(engine, fetcher, name):
    with pytest.raises(InvalidSetting, match=f"headers must not hold '{name.lower()}'"):
        await fetch(fetcher, headers={name: "x"})
    assert not engine.sent


@pytest.mark.parametrize(
    "headers",
    [
        {"X": "secret\r\nEvil: b"},
        {"X": "a\nb"},
        {"X": "a\0"},
        {"X Y": "a"},
        {"": "a"},
        {"X:": "a"},
        {"X\r\nY": ""},
    ],
)
async def test_a_header_that_would_become_two_is_refused(engine, fetcher, headers):
    with pytest.raises(InvalidSetting, match="cannot be sent") as caught:
        await fetch(fetcher, headers=headers)
    assert "secret" not in str(caught.value) and not engine.sent


async def test_the_callers_cookies_and_the_kept_ones_go_together(engine, fetcher):
    engine.on(START, Set_Cookie="id=1")
    await fetch(fetcher)
    await fetch(fetcher, headers={"Cookie": "mine=2"})
    assert engine.sent[1][1] == {"cookie": "mine=2; id=1"}


async def test_two_fetchers_do_not_share_cookies(engine, fetcher):
    engine.on(START, Set_Cookie="id=1")
    await fetch(fetcher)
    await fetch(RedirectingClient(engine, Egress(lookup=everywhere), Limits()))
    assert engine.sent[1][1] == {}


async def test_one_deadline_covers_all_redirects(engine, fetcher):
    engine.wait = 0.04
    for number in range(9):
        engine.on(f"https://shop.test/{number}", 302, Location=f"/{number + 1}")
    engine.on("https://shop.test/9")
    with pytest.raises(FetchTimeout, match=r"within 0\.1 s"):
        await fetch(fetcher, "https://shop.test/0", timeout=timedelta(seconds=0.1))
    assert len(engine.sent) < 5


async def test_the_deadline_counts_the_lookup_too(engine):
    async def never(name):
        await asyncio.Event().wait()

    egress = Egress(lookup=never)
    with pytest.raises(FetchTimeout):
        await fetch(RedirectingClient(engine, egress, Limits()), timeout=timedelta(seconds=0.05))
    await egress.close()


async def test_a_cancelled_fetch_is_cancelled_and_not_late(engine, fetcher):
    engine.wait = 10
    engine.on(START)
    task = asyncio.create_task(fetch(fetcher))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_response_says_how_long_it_took(engine, fetcher):
    engine.wait = 0.02
    engine.on(START)
    assert timedelta(seconds=0.02) <= (await fetch(fetcher)).elapsed < timedelta(seconds=2)
