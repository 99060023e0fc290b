"""Pages fetched with a browser."""

import asyncio
import socket
import struct
from datetime import timedelta

import pytest

from shoal.core.errors import (
    ConnectFailed,
    DnsFailed,
    FetchTimeout,
    InvalidInput,
    InvalidSetting,
    OutOfScope,
    TlsFailed,
    TooLarge,
)
from shoal.core.http import Identity, Request
from shoal.core.urls import host_of
from shoal.fetch.contract import Limits
from shoal.fetch.egress import Egress
from shoal.fetch.http.cookies import CookieJar
from tests.integration.browser.conftest import AGENT, fetch, in_both
from tests.integration.fetch.conftest import loopback
from tests.integration.fetch.hostile import endless, page, raw, redirect

HTML = "Content-Type: text/html; charset=utf-8"
WRITTEN = b"""<!doctype html><title>x</title><div id=app></div><script>
fetch('/data').then(r => r.json()).then(d => { app.innerHTML = '<p class=row>' + d.name + '</p>' })
</script>"""


ICONS = """<link rel=icon href=/i.png sizes=32x32><link rel="shortcut icon" href=/i.ico>
<link rel=apple-touch-icon href=/t.png><link rel=manifest href=/m.json>"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def html(text: str, *headers: str, status: str = "200 OK") -> bytes:
    return page(text.encode(), HTML, *headers, status=status)


async def test_a_page_is_returned_as_its_scripts_have_made_it(browse, origin):
    url = origin.on("/", page(WRITTEN, HTML, "X-Mine: 1"))
    origin.on("/data", page('{"name": "Ünal \U0001f41f"}'.encode()))
    for wait in (".row", "idle"):
        response = await fetch(browse(wait=wait), url)
        assert '<p class="row">Ünal \U0001f41f</p>' in response.body.decode()
        assert (response.url, response.status, response.headers["x-mine"]) == (url, 200, "1")
    assert origin.asked[0].headers["user-agent"].endswith(f" {AGENT}")
    assert "Headless" not in origin.asked[0].headers["user-agent"]


async def test_redirects_are_followed_reported_and_checked(browser, origin):
    for status in (301, 307):
        url = origin.on(f"/a{status}", redirect("/b", status=f"{status} Moved"))
        origin.on("/b", redirect("/end"))
        end = origin.on("/end", html("<p>end"))
        seen = []

        async def on_hop(hop, seen=seen):
            seen.append(hop)

        response = await fetch(browser, url, on_hop=on_hop)
        assert (response.url, response.redirects) == (end, (url, origin.url("/b")))
        assert [hop.status for hop in response.hops] == [status, 302]
        assert seen == [origin.url("/b"), end]


async def test_where_a_page_may_not_lead_is_not_asked(browse, origin):
    there, browser = origin.on("/there", html("secret")), browse(wait="idle")

    async def on_hop(url):
        raise OutOfScope("not there")

    for answer in (
        redirect(there),
        html(f'<meta http-equiv=refresh content="0;url={there}">'),
        html(f"<script>location = '{there}'</script>"),
    ):
        with pytest.raises(OutOfScope, match="not there"):
            await fetch(browser, origin.on("/", answer), on_hop=on_hop)
    assert "/there" not in origin.paths


async def test_a_circle_of_redirects_or_scripts_ends(browse, origin):
    browser = browse(wait="idle")
    with pytest.raises(OutOfScope, match="more than 10 times"):
        await fetch(browser, origin.on("/", redirect("/")))
    assert len(origin.asked) == 11
    turn = "<script>location = '/turn?' + Math.random()</script>"
    with pytest.raises(OutOfScope, match="more than 10 times"):
        await fetch(browser, origin.on("/turn", html(turn)))


async def test_statuses_come_as_they_are_and_are_not_waited_for(browse, origin):
    browser = browse(wait=".never")
    for status in ("404 Not Found", "503 Busy", "429 Slow"):
        url = origin.on("/", html("<p>no", "Retry-After: 7", status=status))
        response = await fetch(browser, url, seconds=5)
        assert (response.status, response.headers["retry-after"]) == (int(status[:3]), "7")
    # A host that wants a password is not given one.
    url = origin.on("/", html("<p>no", 'WWW-Authenticate: Basic realm="x"', status="401 Who are you"))
    assert (await fetch(browser, url, seconds=5)).status == 401
    assert "authorization" not in origin.asked[-1].headers
    url = origin.on("/", page(b"", status="304 Not Modified"))
    response = await fetch(browser, url, headers={"If-None-Match": '"1"'}, seconds=5)
    assert (response.status, response.body) == (304, b"")
    assert origin.asked[-1].headers["if-none-match"] == '"1"'


async def test_no_script_reads_an_http_only_cookie_of_a_session(browse, origin):
    """Neither when the session's jar has it, nor when it was stored from a page of the browser."""
    jar, host = CookieJar(), f"127.0.0.1:{origin.port}"
    script = "<script>document.write(document.cookie)</script>"
    url = origin.on("/a/", html(script, "Set-Cookie: c=3; HttpOnly"))
    jar.store(url, host, ["a=1; Path=/a; HttpOnly; SameSite=Strict", "b=2; Path=/"])
    for _ in range(2):
        response = await fetch(browse(), url, identity=Identity(key="a", cookies=jar))
        assert b"b=2" in response.body
        assert b"a=1" not in response.body and b"c=3" not in response.body
    assert sorted(origin.asked[-1].headers["cookie"].split("; ")) == ["a=1", "b=2", "c=3"]
    assert {cookie.name for cookie in jar.matching(url, host) if cookie.http_only} == {"a", "c"}


async def test_the_cookies_of_a_session_are_sent_and_stored(browse, origin):
    browser = browse(context="session")
    url = origin.on("/", html("<p>", "Set-Cookie: new=2"))
    guises = [Identity(key=key, cookies=CookieJar()) for key in "ab"]
    guises[0].cookies.store(url, f"127.0.0.1:{origin.port}", ["old=1"])
    for identity in guises:
        await fetch(browser, url, identity=identity)
    assert [asked.headers.get("cookie") for asked in origin.asked] == ["old=1", None]
    for identity in guises:
        assert "new=2" in identity.cookies.header(url, f"127.0.0.1:{origin.port}")


async def test_a_session_cookie_with_a_domain_is_sent_to_the_hosts_of_its_site(browse, origin):
    origin.on("/", html("<p>", "Set-Cookie: new=2; Domain=site.test"))
    identity = Identity(key="a", cookies=CookieJar())
    at = [origin.url("/", host) for host in ("id.site.test", "www.site.test", "other.test")]
    identity.cookies.store(at[0], host_of(at[0]), ["old=1; Domain=site.test; Path=/"])
    browser = browse()
    for url in at:
        await fetch(browser, url, identity=identity)
    sent = [sorted(asked.headers.get("cookie", "").split("; ")) for asked in origin.asked]
    assert sent == [["old=1"], ["new=2", "old=1"], [""]]
    assert len(identity.cookies.matching(at[1], host_of(at[1]))) == 2


async def test_what_is_no_page_comes_as_its_bytes(browser, origin):
    for kind, body in {
        "application/json": b'{"a": [1, 2]}',
        "text/plain": b"<p>plain",
        "application/pdf": bytes(range(256)),
        "application/xml": b"<a/>",
    }.items():
        url = origin.on("/raw", page(body, f"Content-Type: {kind}"))
        assert (await fetch(browser, url)).body == body
    url = origin.on("/file", page(b"<p>saved", HTML, "Content-Disposition: attachment; filename=a.html"))
    assert (await fetch(browser, url)).body == b"<p>saved"
    assert (await fetch(browser, origin.on("/none", page(b"", status="204 No Content")))).status == 204


async def test_limits_hold(browse, origin):
    browser = browse(limits=Limits(max_body=100_000), wait="idle")
    with pytest.raises(TooLarge, match="announces 100,001 bytes"):
        await fetch(browser, origin.on("/long", page(b"x" * 100_001, HTML)))
    with pytest.raises(TooLarge):
        await fetch(browser, origin.on("/raw", page(b"x" * 100_001, "Content-Type: text/plain")))
    with pytest.raises(TooLarge, match="grown larger"):
        await fetch(browser, origin.on("/grown", html("<script>document.write('y'.repeat(200000))</script>")))
    stream = endless(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>", b"z" * 20_000)
    with pytest.raises(TooLarge, match=r"what it loads|larger than the limit"):
        await fetch(browser, origin.on("/stream", stream))


async def test_kinds_of_failures_are_distinguished(browse, origin, tls_origin):
    async def lookup(name):
        if name == "nowhere.test":
            raise OSError("no such name")
        return ["127.0.0.1"]

    browser = browse(Egress(["127.0.0.0/8"], lookup=lookup))
    with pytest.raises(DnsFailed, match=r"nowhere\.test"):
        await fetch(browser, "http://nowhere.test/")
    with pytest.raises(DnsFailed, match=r"nowhere\.test"):
        await fetch(browser, origin.on("/", redirect("http://nowhere.test/")))
    with pytest.raises(TlsFailed):
        await fetch(browser, tls_origin.url())
    with pytest.raises(ConnectFailed):
        await fetch(browser, f"https://127.0.0.1:{free_port()}/")  # where nothing listens
    with pytest.raises(InvalidSetting, match="not a CSS selector"):
        await fetch(browse(wait="p[["), origin.on("/", html("<p>")))


async def test_a_page_without_an_end_is_left_at_its_deadline(browser, origin):
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(FetchTimeout):
        await fetch(browser, origin.on("/", raw(b"", stay=True)), seconds=1)
    with pytest.raises(FetchTimeout):
        await fetch(browser, origin.on("/", html("<script>while (true) {}</script>")), seconds=2)
    assert loop.time() - began < 8
    assert (await fetch(browser, origin.on("/", html("<p>well")))).status == 200


async def test_dialogs_popups_and_downloads_hold_nothing_up(browse, origin):
    browser = browse(wait="#end")
    told = "alert(1); confirm(2); prompt(3); window.open('/popup'); onbeforeunload = () => 'stay';"
    get = "const a = document.createElement('a'); a.href = '/file'; a.download = 'x'; a.click();"
    url = origin.on("/", html(f"<body><script>{told}{get}document.body.innerHTML = '<p id=end>'</script>"))
    origin.on("/file", page(b"x" * 1000, "Content-Disposition: attachment"))
    for _ in range(2):
        assert b'id="end"' in (await fetch(browser, url, seconds=10)).body
    await asyncio.sleep(0.3)
    assert "/popup" not in origin.paths


@in_both
async def test_images_fonts_media_and_trackers_are_left_out_unless_wanted(browse, origin):
    """And no icon is requested that only a window would show."""
    parts = "<img src=/a.png><video src=/b.mp4 preload=auto></video>"
    font = "<style>@font-face{font-family:f;src:url(/c.woff)}p{font-family:f}</style><p>text"
    tracker = f"<script src=http://cdn.quantserve.com:{origin.port}/t.js></script>"
    url = origin.on("/", html(ICONS + parts + font + tracker))
    for block, wanted in (({}, set()), ({"block": frozenset()}, {"/a.png", "/b.mp4", "/c.woff", "/t.js"})):
        origin.asked.clear()
        response = await browse(wait="idle", **block).fetch(Request(url=url))
        await asyncio.sleep(1.0)  # for what must not be requested
        response.live.release()
        assert origin.paths.count("/") == 1
        assert set(origin.paths) - {"/"} == wanted


async def test_a_step_can_use_the_page(browse, origin, tmp_path):
    browser = browse(wait="load")
    form = "<form><input id=q><button id=go type=button>go</button></form><div id=out></div>"
    answer = "setTimeout(() => { out.innerHTML = '<b>' + q.value + '</b>' }, 50)"
    script = f"<script>go.onclick = () => {answer}</script>"
    url = origin.on("/", html(form + script, "Set-Cookie: seen=1"))
    response = await browser.fetch(Request(url=url, timeout=timedelta(seconds=10)))
    live = response.live
    await live.fill("#q", 'a "quoted" fish')
    await live.click("#go")
    await live.wait_for("#out b")
    assert await live.evaluate("document.querySelector('#out b').textContent") == 'a "quoted" fish'
    assert await live.evaluate("new Promise(done => setTimeout(() => done({a: [1]}), 10))") == {"a": [1]}
    assert "<b>a &quot;quoted" in await live.html() or '<b>a "quoted' in await live.html()
    picture = await live.screenshot(tmp_path / "shot.png")
    assert picture.startswith(b"\x89PNG") and (tmp_path / "shot.png").read_bytes() == picture
    assert [cookie["name"] for cookie in await live.cookies()] == ["seen"]
    with pytest.raises(FetchTimeout, match=r"Nothing matches '\.never' within 0\.2 s"):
        await live.wait_for(".never", timeout=0.2)
    live.release()
    with pytest.raises(InvalidInput, match="closed once its step has ended"):
        await live.html()


def size(picture: bytes) -> tuple[int, int]:
    """Return the width and the height in the header of a PNG."""
    return struct.unpack(">II", picture[16:24])


@in_both
async def test_a_picture_is_of_the_view_or_of_the_full_page(browser, origin):
    for name, height in (("short", 100), ("long", 3_000)):
        body = html(f"<!doctype html><body style='margin: 0'><div style='height: {height}px'></div>")
        response = await browser.fetch(Request(url=origin.on(f"/{name}", body)))
        assert size(await response.live.screenshot()) == (1280, 800)
        assert size(await response.live.screenshot(full=True)) == (1280, max(height, 800))
        assert await response.live.evaluate("innerWidth + 'x' + innerHeight") == "1280x800"
        response.live.release()


async def test_where_a_click_leads_is_asked_about_too(browser, origin):
    async def on_hop(url):
        raise OutOfScope("not there")

    origin.on("/there", html("secret"))
    url = origin.on("/", html("<a id=on href=/there>on</a>"))
    response = await browser.fetch(Request(url=url, timeout=timedelta(seconds=10), on_hop=on_hop))
    with pytest.raises(OutOfScope, match="not there"):
        await response.live.click("#on")
        await response.live.wait_for(".never", timeout=5)
    response.live.release()
    assert "/there" not in origin.paths


async def test_contexts_share_nothing_and_sessions_do(browse, origin):
    url = origin.on("/", html("<p>", "Set-Cookie: seen=1"))
    for context, sent in (("task", None), ("session", "seen=1")):
        browser = browse(context=context, egress=Egress(["127.0.0.0/8"], lookup=loopback))
        await fetch(browser, url)
        await fetch(browser, url)
        assert origin.asked[-1].headers.get("cookie") == sent
