"""A caller's headers are sent to the intended origin and to no other, whatever a page does."""

import asyncio

import pytest

from shoal.core.errors import InvalidSetting
from shoal.fetch.browser import process
from tests.integration.browser.conftest import fetch, in_both
from tests.integration.browser.test_pages import html
from tests.integration.fetch.hostile import Origin, redirect

SECRETS = {"Authorization": "Bearer secret", "Cookie": "sid=secret", "X-API-Key": "secret"}
HOPS = ("301", "302", "303", "307", "308", "meta", "script", "form", "http header")


@pytest.fixture
async def elsewhere():
    """Another origin: by its port, and by any name."""
    async with Origin() as server:
        server.on("/next", html("<p id=next>next"))
        yield server


@pytest.fixture
def trusting(monkeypatch):
    """Makes the browser accept any certificate."""
    monkeypatch.setattr(process, "FLAGS", (*process.FLAGS, "--ignore-certificate-errors"))


def answer(how: str, there: str) -> bytes:
    if how.isdecimal():
        return redirect(there, status=f"{how} Moved")
    forms = {
        "meta": html(f'<meta http-equiv=refresh content="0;url={there}">'),
        "script": html(f"<script>location.replace('{there}')</script>"),
        "form": html(f"<form action='{there}'></form><script>document.forms[0].submit()</script>"),
        "http header": html("<p>", f"Refresh: 0;url={there}"),
    }
    return forms[how]


def leaks(*origins: Origin) -> list[str]:
    """Return requests that contain a secret, or the credential of the browser proxy."""
    return [
        f"{asked.line}: {name}"
        for origin in origins
        for asked in origin.asked
        for name, value in asked.headers.items()
        if "secret" in value or name.startswith("proxy-")
    ]


@pytest.mark.long
@pytest.mark.usefixtures("trusting")
async def test_no_secret_crosses_to_another_origin(browse, origin, elsewhere, tls_origin):
    tls_origin.on("/next", html("<p id=next>next"))
    browser = browse(context="session", wait="#next")
    targets = {
        "another port": elsewhere.url("/next", host="shop.test"),
        "a subdomain": elsewhere.url("/next", host="www.shop.test"),
        "another host": elsewhere.url("/next", host="evil.test"),
        "another scheme": tls_origin.url("/next", host="shop.test"),
    }
    for target, there in targets.items():
        for how in HOPS:
            # A separate path: sessions cache what may be cached, and 301 and 308 may.
            path = f"/start/{target}/{how}".replace(" ", "-")
            origin.on(path, answer(how, there))
            response = await fetch(browser, origin.url(path, host="shop.test"), headers=SECRETS)
            assert response.url.rstrip("?") == there, (target, how)
    assert len(elsewhere.asked) + len(tls_origin.asked) >= len(targets) * len(HOPS)
    assert leaks(elsewhere, tls_origin) == []
    firsts = [asked.headers for asked in origin.asked if asked.path.startswith("/start/")]
    assert len(firsts) == len(targets) * len(HOPS)
    for name, value in SECRETS.items():
        assert all(sent[name.lower()] == value for sent in firsts), name


@in_both
@pytest.mark.usefixtures("trusting")
async def test_no_secret_goes_from_tls_into_the_clear(browse, elsewhere, tls_origin):
    browser = browse(context="session", wait="#next")
    for how in HOPS:
        path = f"/start/{how}".replace(" ", "-")
        tls_origin.on(path, answer(how, elsewhere.url("/next", host="shop.test")))
        await fetch(browser, tls_origin.url(path, host="shop.test"), headers=SECRETS)
    assert len(elsewhere.asked) >= len(HOPS)
    assert leaks(elsewhere) == []


async def test_secrets_do_reach_the_same_origin_and_do_not_come_back_once_left(browse, origin, elsewhere):
    browser = browse(wait="#next")
    origin.on("/next", html("<p id=next>next<script>fetch('/data')</script>"))
    for how in HOPS:
        origin.on("/start", answer(how, "/next"))
        await fetch(browser, origin.url("/start"), headers=SECRETS)
        assert origin.asked[-1].headers.get("authorization") == "Bearer secret", how
    origin.on("/left", redirect(elsewhere.url("/back")))
    elsewhere.on("/back", redirect(origin.url("/last")))
    origin.on(
        "/last", html("<p id=next><script>fetch('/late').then(() => next.className = 'ready')</script>")
    )
    await fetch(browse(wait=".ready"), origin.url("/left"), headers=SECRETS)
    sent = {asked.path: "authorization" in asked.headers for asked in origin.asked}
    assert (sent["/left"], sent["/last"], sent["/late"]) == (True, False, False)


async def test_parts_of_a_page_get_the_secrets_of_their_own_origin_only(browse, origin, elsewhere):
    browser = browse(wait="idle", block=frozenset())
    there = elsewhere.url("", host="evil.test")
    elsewhere.on(
        "/frame", html(f"<script>fetch('{origin.url('/from-frame')}', {{mode: 'no-cors'}})</script>")
    )
    body = f"""<img src={there}/img><script src={there}/script></script><iframe src={there}/frame></iframe>
        <link rel=stylesheet href={there}/style><link rel=prefetch href={there}/prefetch><script>
        fetch('/own'); fetch('{there}/fetch', {{mode: 'no-cors'}}); fetch('/moved', {{mode: 'no-cors'}});
        navigator.sendBeacon('{there}/beacon'); new EventSource('{there}/events');
        new Worker(URL.createObjectURL(new Blob(["fetch('{there}/worker', {{mode: 'no-cors'}})"])));
        new WebSocket('{there.replace("http", "ws")}/socket')</script>"""
    origin.on("/moved", redirect(f"{there}/moved"))
    await fetch(browser, origin.on("/", html(body)), headers=SECRETS)
    await asyncio.sleep(0.2)
    seen = set(elsewhere.paths)
    assert {
        "/img",
        "/script",
        "/frame",
        "/style",
        "/fetch",
        "/moved",
        "/beacon",
        "/events",
        "/worker",
        "/socket",
    } <= seen
    assert leaks(elsewhere) == []
    sent = {asked.path: asked.headers for asked in origin.asked}
    assert sent["/own"]["authorization"] == "Bearer secret"
    assert "authorization" not in sent["/from-frame"]


async def test_what_is_no_secret_is_said_to_everybody(browse, origin, elsewhere):
    browser = browse(wait="load")
    said = {"User-Agent": "mine/1.0", "Accept-Language": "de"}
    await fetch(browser, origin.on("/", redirect(elsewhere.url("/next"))), headers=said | SECRETS)
    assert elsewhere.asked[0].headers["user-agent"] == "mine/1.0"
    assert elsewhere.asked[0].headers["accept-language"].startswith("de")
    with pytest.raises(InvalidSetting, match="must not hold 'proxy-authorization'"):
        await fetch(browser, origin.url(), headers={"Proxy-Authorization": "secret"})


async def test_the_test_would_notice_a_leak(browse, origin, elsewhere, monkeypatch):
    from shoal.fetch.browser import navigation

    monkeypatch.setattr(navigation, "headers_for_hop", lambda headers, left, entered: headers)
    origin.on("/start", redirect(elsewhere.url("/next")))
    await fetch(browse(), origin.url("/start"), headers=SECRETS)
    assert leaks(elsewhere)
