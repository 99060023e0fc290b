"""Where the token fetcher sends tokens, and how it handles the responses."""

from datetime import UTC, datetime, timedelta

import pytest

from shoal.core.errors import BrokenAnswer, NotNow, NoTokenLeft, OutOfScope, TokensResting
from shoal.core.http import Headers, Hop, Request, Response
from shoal.fetch.tokens.fetcher import MAX_REQUEUES, TokenFetcher
from shoal.fetch.tokens.pool import TokenPool
from shoal.fetch.tokens.token import TokenPlacement, TokenSource
from tests.conformance.model import ModelQueue

API = "https://api.test"
PLENTY = {"x-ratelimit-limit": "100", "x-ratelimit-remaining": "99", "x-ratelimit-reset": "60"}


class Pages:
    """Responds as the test sets it, and records its requests."""

    def __init__(self):
        self.asked, self.answers, self.is_closed = [], {}, False

    async def fetch(self, request):
        self.asked.append(request)
        status, headers, body = self.answer(request)
        fields = Headers((PLENTY | headers).items())
        return Response(url=request.url, status=status, headers=fields, body=body)

    def answer(self, request):
        return 200, {}, b"page"

    def tokens(self):
        return [request.headers.get("Authorization", "").removeprefix("Bearer ") for request in self.asked]

    async def close(self):
        self.is_closed = True


class Paused(ModelQueue):
    """A queue that records which hosts were paused."""

    def __init__(self):
        super().__init__(lambda: datetime.now(UTC))
        self.paused = []

    async def pause_host(self, host, duration):
        self.paused.append((host, duration))


@pytest.fixture
def pages():
    return Pages()


@pytest.fixture
def queue():
    return Paused()


@pytest.fixture
def opening(pages, queue):
    opened = []

    async def open_fetcher(*tokens, **placement):
        pool = await TokenPool.open(queue, TokenSource(given=tokens or ("one", "two")), run_id="r")
        opened.append(
            TokenFetcher(pages, pool, TokenPlacement(origins=frozenset({API}), **placement), queue=queue)
        )
        return opened[-1]

    return open_fetcher


def asking(path="/a", origin=API, **more):
    return Request(url=f"{origin}{path}", **more)


async def test_a_token_goes_to_its_origin_and_to_no_other(opening, pages):
    fetcher = await opening("secret")
    for origin in (
        API,
        "http://api.test",
        "https://api.test:8443",
        "https://www.api.test",
        "https://evil.test",
    ):
        await fetcher.fetch(asking(origin=origin))
    assert pages.tokens() == ["secret", "", "", "", ""]
    await fetcher.close()
    assert pages.is_closed


async def test_a_host_that_gets_no_token_because_of_its_scheme_is_named_once(opening, pages, caplog):
    fetcher = await opening("one")
    for url in (f"{API}/robots.txt", "https://other.test/", f"{API}/"):
        await fetcher.fetch(Request(url=url))
    assert not caplog.messages
    for path in ("a", "b"):
        await fetcher.fetch(Request(url=f"http://api.test/{path}"))
    assert pages.tokens() == ["", "", "one", "", ""]
    (said,) = caplog.messages
    assert "http://api.test are sent without a token: tokens go to https://api.test only" in said
    assert said.endswith("hosts=https://api.test,http://api.test")


async def test_robots_txt_is_asked_for_without_a_token(opening, pages):
    fetcher = await opening("secret")
    await fetcher.fetch(asking("/robots.txt"))
    assert pages.tokens() == [""]
    await fetcher.close()


async def test_a_token_goes_into_the_header_that_was_named(opening, pages):
    fetcher = await opening("secret", header="X-Api-Key", form="{}")
    await fetcher.fetch(asking(headers={"x-api-key": "old", "accept": "*/*"}))
    assert pages.asked[0].headers == {"accept": "*/*", "X-Api-Key": "secret"}
    await fetcher.close()


async def test_a_token_in_the_query_is_in_no_url_that_comes_back(opening, pages):
    fetcher = await opening("se/cret", query="key")
    response = await fetcher.fetch(asking("/a?b=1&key=mine"))
    assert pages.asked[0].url == f"{API}/a?b=1&key=se%2Fcret"
    assert response.url == f"{API}/a?b=1"
    await fetcher.close()


async def test_a_token_that_the_host_repeats_in_a_header_is_hidden(opening, pages):
    pages.answer = lambda request: (200, {"link": f"<{request.url}&page=2>; rel=next"}, b"")
    fetcher = await opening("se/cret", query="key")
    assert (await fetcher.fetch(asking())).headers["link"] == f"<{API}/a?key=…&page=2>; rel=next"
    await fetcher.close()


async def test_an_error_does_not_tell_the_token(opening, pages):
    def broken(request):
        raise BrokenAnswer(f"{request.url} broke off")

    pages.answer = broken
    fetcher = await opening("secret", query="key")
    with pytest.raises(BrokenAnswer) as caught:
        await fetcher.fetch(asking())
    assert "secret" not in str(caught.value) and caught.value.__cause__ is None
    await fetcher.close()


async def test_an_exhausted_token_rests_and_the_task_goes_back_at_once(opening, pages, queue):
    fetcher = await opening("one", "two")
    pages.answer = lambda request: (429, {"retry-after": "30", "x-ratelimit-remaining": "0"}, b"")
    for _ in range(2):
        with pytest.raises(TokensResting) as caught:
            await fetcher.fetch(asking())
        assert caught.value.after == timedelta(0)
    assert set(pages.tokens()) == {"one", "two"}
    with pytest.raises(TokensResting) as caught:
        await fetcher.fetch(asking())
    assert timedelta(seconds=29) < caught.value.after <= timedelta(seconds=62)
    assert len(pages.asked) == 2
    ((host, pause),) = queue.paused
    assert host == "api.test" and pause == caught.value.after
    await fetcher.close()


async def test_a_403_that_leaves_nothing_is_exhaustion_too(opening, pages):
    fetcher = await opening("one")
    pages.answer = lambda request: (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "7"}, b"")
    with pytest.raises(TokensResting):
        await fetcher.fetch(asking())
    await fetcher.close()


async def test_a_403_of_a_page_is_the_pages_affair(opening, pages):
    fetcher = await opening("one")
    pages.answer = lambda request: (403, {}, b"not for you")
    assert (await fetcher.fetch(asking())).status == 403
    await fetcher.close()


async def test_a_token_that_two_pages_refuse_is_retired_and_the_others_go_on(opening, pages):
    fetcher = await opening("bad", "good")
    pages.answer = lambda request: (401 if "bad" in request.headers["Authorization"] else 200, {}, b"")
    done = 0
    for number in range(90):
        try:
            await fetcher.fetch(asking(f"/{number}"))
            done += 1
        except TokensResting:
            continue
    assert pages.tokens().count("bad") == 2
    assert done == 88
    await fetcher.close()


async def test_when_all_are_retired_the_run_waits_and_says_what_to_do(opening, pages, tmp_path):
    fetcher = await opening("one", "two")
    pages.answer = lambda request: (403, {}, b'{"error": "token has been revoked"}')
    for number in range(8):
        with pytest.raises(NotNow) as caught:
            await fetcher.fetch(asking(f"/{number}"))
    assert isinstance(caught.value, NoTokenLeft)
    assert "All 2 tokens were rejected" in str(caught.value) and "--resume" in str(caught.value)
    assert len(pages.asked) == 4
    await fetcher.close()


async def test_a_page_that_refuses_every_token_is_to_blame_itself(opening, pages):
    fetcher = await opening("one", "two")
    pages.answer = lambda request: (401 if request.url.endswith("/locked") else 200, {}, b"")
    for _ in range(2 + MAX_REQUEUES):
        with pytest.raises(TokensResting):
            await fetcher.fetch(asking("/locked"))
        await fetcher.fetch(asking("/fine"))
    assert (await fetcher.fetch(asking("/locked"))).status == 401
    assert (await fetcher.fetch(asking("/fine"))).status == 200
    await fetcher.close()


class Redirecting(Pages):
    """Redirects as the test sets it, like a fetcher that follows redirects."""

    def __init__(self, *urls):
        super().__init__()
        self._urls = urls

    async def fetch(self, request):
        self.asked.append(request)
        hops = [request.url]
        for url in self._urls:
            await request.on_hop(url)
            hops.append(url)
        answers = tuple(Hop(url=url, status=302) for url in hops[:-1])
        return Response(url=hops[-1], status=200, headers=Headers(PLENTY.items()), hops=answers)


async def test_a_redirect_within_the_origin_is_one_more_request_of_the_budget(queue):
    pool = await TokenPool.open(queue, TokenSource(given=["one"]), run_id="r")
    placement = TokenPlacement(origins=frozenset({API}))
    plain, leading = Pages(), Redirecting(f"{API}/b", f"{API}/c")
    await TokenFetcher(plain, pool, placement, queue=queue).fetch(asking())
    fetcher = TokenFetcher(leading, pool, placement, queue=queue)
    for _ in range(3):
        await fetcher.fetch(asking())
    (quota,) = pool._quotas.values()
    assert quota.taken == 1 + 3 * 3
    assert quota.in_flight == 0
    await fetcher.close()


async def test_what_another_host_answers_says_nothing_of_the_token(queue):
    pool = await TokenPool.open(queue, TokenSource(given=["one"]), run_id="r")
    fetcher = TokenFetcher(
        Redirecting("https://cdn.test/x"), pool, TokenPlacement(origins=frozenset({API})), queue=queue
    )
    await fetcher.fetch(asking())
    (quota,) = pool._quotas.values()
    assert not quota.budget().is_known
    await fetcher.close()


async def test_a_redirect_that_carries_the_token_to_another_host_is_not_followed(queue):
    pool = await TokenPool.open(queue, TokenSource(given=["secret"]), run_id="r")
    placement = TokenPlacement(origins=frozenset({API}), query="key")
    for url in ("https://evil.test/?key=secret", "https://evil.test/secret"):
        fetcher = TokenFetcher(Redirecting(url), pool, placement, queue=queue)
        with pytest.raises(OutOfScope) as caught:
            await fetcher.fetch(asking())
        assert "secret" not in str(caught.value)
    await pool.close()


async def test_what_was_reserved_is_handed_back_at_the_end(opening, pages, queue):
    first, second = await opening("one"), await opening("one")
    for number in range(5):
        await first.fetch(asking(f"/{number}"))
    await first.close()
    (note,) = (await queue.notes("tokens")).values()
    assert b'"held"' not in note.value
    await second.fetch(asking())
    await second.close()


async def test_notes_hold_no_token_and_no_page(opening, pages, queue):
    fetcher = await opening("sesame")
    pages.answer = lambda request: (401, {}, b"")
    with pytest.raises(TokensResting):
        await fetcher.fetch(asking("/private-page"))
    await fetcher.close()
    notes = await queue.notes("tokens")
    assert notes
    for key, note in notes.items():
        assert "sesame" not in key and b"sesame" not in note.value and b"private-page" not in note.value
    assert "sesame" not in repr(fetcher._pool.tokens)
