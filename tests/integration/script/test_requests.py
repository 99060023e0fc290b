"""A step sends requests itself: through the fetcher, the hooks and the limits of its run."""

import asyncio
from itertools import pairwise

import pytest

from shoal import Page, Scraper, Task
from shoal.core.errors import InvalidInput
from shoal.testing import page as page_of
from shoal.testing import run_step
from tests.integration.engine.origin import Answer, Origin

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")


@pytest.fixture
async def site():
    async with Origin(
        lambda path: Answer('{"ok": true}', headers={"Content-Type": "application/json"})
    ) as site:
        site.heads = []
        site.on_head = lambda path, head: site.heads.append(head)
        yield site


def scraper(**settings):
    return Scraper("api", **{"robots": False, "rate": None, "allow_private": "127.0.0.1", **settings})


async def test_a_step_sends_a_request_and_reads_its_response(site):
    api = scraper(headers={"x-client": "me"})
    hooked = []

    @api.on_request
    def sign(request):
        hooked.append((request.method, request.task.url))
        request.headers["x-signature"] = "abc"

    @api.step
    async def page(page: Page):
        found = await page.request(
            "/search", json={"q": "lamp"}, params={"page": 2}, headers={"Idempotency-Key": "k1"}, timeout="5s"
        )
        yield {"ok": found.json()["ok"], "status": found.status, "url": found.url}
        yield found.follow("/next", payload={"from": "request"}) if not page.payload else None

    result = await api.run([f"{site.url}/start"])
    assert {item["url"] for item in result.items} == {f"{site.url}/search?page=2"}
    assert all(item["ok"] and item["status"] == 200 for item in result.items)
    path, body, head = site.posts[0]
    assert (path, body) == ("/search?page=2", b'{"q":"lamp"}')
    assert "x-client: me" in head and "idempotency-key: k1" in head and "x-signature: abc" in head
    assert ("POST", f"{site.url}/search?page=2") in hooked and site.visits["/next"] == 1


async def test_every_method_is_sent_and_every_status_is_returned(site):
    site.answer = lambda path: Answer("", status=404 if path == "/api" else 200)
    api = scraper()

    @api.step
    async def page(page: Page):
        yield {
            method: (await page.request("/api", method=method)).status
            for method in METHODS
            if method != "POST"
        }
        yield {"POST": (await page.request("/api", form={"a": 1})).status}

    result = await api.run([f"{site.url}/start"])
    assert result.items == [{method: 404 for method in METHODS if method != "POST"}, {"POST": 404}]
    assert {head.split(" ", 1)[0] for head in site.heads} == set(METHODS)


async def test_requests_keep_the_gap_of_their_host(site):
    api = scraper(rate="5/s", per_host=2)

    @api.step
    async def page(page: Page):
        yield {"status": [(await page.request(f"http://localhost:{site.port}/x")).status for _ in range(2)]}

    await api.run([f"{site.url}/{n}" for n in range(2)], allow_private=["127.0.0.1", "localhost"])
    moments = [moment for moment, path in site.moments if path == "/x"]
    assert len(moments) == 4 and min(late - early for early, late in pairwise(sorted(moments))) > 0.15


async def test_a_private_host_and_a_page_that_robots_forbid_are_refused(site):
    site.answer = lambda path: Answer("User-agent: *\nDisallow: /secret" if path == "/robots.txt" else "")
    api = scraper(robots=True)

    @api.step
    async def page(page: Page):
        for url in ("/secret", "http://169.254.169.254/latest"):
            try:
                await page.request(url)
            except Exception as error:
                yield {"error": type(error).__name__}

    result = await api.run([f"{site.url}/start"])
    assert result.items == [{"error": "RobotsDenied"}, {"error": "PrivateAddress"}]
    assert not site.visits["/secret"]


@pytest.mark.parametrize(
    ("is_async", "words"), [(False, "needs a step that is defined with 'async def'"), (True, "in a run only")]
)
def test_where_no_request_can_be_sent_it_says_so(is_async, words):
    api = scraper()

    if is_async:

        @api.step
        async def page(page: Page):
            yield {"status": (await page.request("/x")).status}
    else:

        @api.step
        def page(page: Page):
            page.request("/x")

    with pytest.raises(InvalidInput, match=words):
        api.parse("")


async def test_secret_headers_of_the_scraper_do_not_go_to_another_site(site):
    api = scraper(headers={"Authorization": "Bearer hush", "x-client": "me"})

    @api.step
    async def page(page: Page):
        await page.request("/same")
        await page.request(f"http://localhost:{site.port}/other")
        yield {"done": True}

    result = await api.run([f"{site.url}/start"], allow_private=["127.0.0.1", "localhost"])
    heads = {head.split(" ", 2)[1]: head.lower() for head in site.heads}
    assert result.items == [{"done": True}]
    assert "bearer hush" in heads["/start"] and "bearer hush" in heads["/same"]
    assert "hush" not in heads["/other"] and "x-client: me" in heads["/other"]


async def test_requests_of_one_step_to_the_host_of_its_page_use_its_lease_first(site):
    site.answer = lambda path: Answer("{}", after=0.2)
    api = scraper(per_host=1)

    @api.step
    async def page(page: Page):
        yield {"found": [one.status for one in await asyncio.gather(*map(page.request, "abc"))]}

    result = await api.run([f"{site.url}/start"])
    starts = [moment for moment, _ in site.moments]
    assert result.items == [{"found": [200] * 3}]
    assert starts[3] - starts[1] > 0.18  # two at a time: the lease, and the one slot


async def test_a_step_without_a_page_sends_requests_too(site):
    api = scraper(headers={"x-client": "me"}, rate="10/s")

    @api.step(fetch=None)
    async def profile(task: Task):
        found = await api.request(f"{site.url}/users", params={"name": task.payload["name"]})
        more = await found.request("/more")
        yield {"url": found.url, "ok": found.json()["ok"], "more": more.status}

    result = await api.run([Task(payload={"name": name}) for name in ("ann", "bob")])
    assert sorted(item["url"] for item in result.items) == [
        f"{site.url}/users?name={n}" for n in ("ann", "bob")
    ]
    assert all(item["ok"] and item["more"] == 200 for item in result.items)
    assert all("x-client: me" in head for head in site.heads)
    # As a whole: on a busy machine a request may arrive late, and the next one in time.
    assert result.seconds >= 0.3


async def test_a_request_without_a_page_and_without_a_step_says_where_it_belongs(site):
    with pytest.raises(InvalidInput, match="in a step with fetch=None"):
        await scraper().request(f"{site.url}/users")


async def test_a_test_of_a_step_gives_it_its_responses():
    api = scraper()

    @api.step(fetch=None)
    async def profile(task: Task):
        yield (await api.request("https://api.test/users", params={"name": task.payload["name"]})).json()

    @api.step
    async def stock(page: Page):
        yield (await page.request("/stock")).json()

    def send(task: Task) -> Page:
        return page_of(b'{"asked": "%s"}' % task.url.encode())

    found = await run_step(profile, Task(payload={"name": "ann"}), send=send)
    assert found.items == [{"asked": "https://api.test/users?name=ann"}]
    found = await run_step(stock, page_of(""), send=send)
    assert found.items == [{"asked": "https://example.com/stock"}]
