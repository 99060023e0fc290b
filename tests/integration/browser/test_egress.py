"""The egress rules hold for a browser too: a canary on this machine is never reached by any page."""

import asyncio
import json
import socket
from contextlib import nullcontext

import pytest

from shoal.core.errors import OutOfScope
from shoal.fetch.browser import process
from shoal.fetch.egress import Egress
from tests.integration.browser.conftest import fetch, in_both
from tests.integration.browser.test_pages import html
from tests.integration.fetch.conftest import LOOPBACK, loopback
from tests.integration.fetch.hostile import Origin, redirect
from tests.integration.fetch.test_egress import INNER

# Every method by which a page makes its browser send a request.
TRIES = """
const tries = {
  fetch: u => fetch(u, {mode: 'no-cors'}).catch(() => 0),
  xhr: u => { const x = new XMLHttpRequest(); x.open('GET', u); x.send() },
  beacon: u => navigator.sendBeacon(u),
  events: u => new EventSource(u),
  socket: u => new WebSocket(u.replace('http', 'ws')),
  script: u => put('script', 'src', u), frame: u => put('iframe', 'src', u), image: u => put('img', 'src', u),
  object: u => put('object', 'data', u), embed: u => put('embed', 'src', u),
  video: u => put('video', 'src', u),
  style: u => link('stylesheet', u), preload: u => link('preload', u), prefetch: u => link('prefetch', u),
  preconnect: u => link('preconnect', u), dns: u => link('dns-prefetch', u),
  prerender: u => link('prerender', u),
  worker: u => new Worker(URL.createObjectURL(new Blob([`fetch('${u}', {mode: 'no-cors'})`]))),
  shared: u => new SharedWorker(URL.createObjectURL(new Blob([`importScripts('${u}')`]))),
  popup: u => window.open(u),
  ping: u => { const a = put('a', 'href', '#'); a.ping = u; a.click() },
  form: u => { const f = put('form', 'action', u); f.target = 'inner'; f.submit() },
};
function put(tag, name, url) {
  const made = document.createElement(tag); made[name] = url; document.body.append(made); return made }
function link(rel, url) {
  const made = document.createElement('link'); made.rel = rel; made.href = url; made.as = 'script';
  document.head.append(made) }
"""


@pytest.fixture
async def canary():
    """A server that must not be reached."""
    async with Origin() as server:
        yield server


def only(origin: Origin) -> Egress:
    return Egress([f"127.0.0.1:{origin.port}"], lookup=loopback)


def trying(urls: list[str], turns: int = 1) -> bytes:
    """Return a page that tries each URL by every method; "{kind}" in one stands for the method.

    With `turns`, each URL by one of every `turns` methods, and the next URL by the next of them.
    """
    script = f"""{TRIES}
        {json.dumps(urls)}.forEach((url, row) => Object.entries(tries).forEach(([kind, go], column) => {{
          if ((row + column) % {turns}) return;
          try {{ go(url.replace('{{kind}}', kind)) }} catch {{}} }}));
        setTimeout(() => {{ document.body.id = 'tried' }}, 500)"""
    return html(f"<body><iframe name=inner></iframe><script>{script}</script>")


@pytest.mark.long
async def test_no_spelling_of_an_inner_address_is_reached_as_a_page_or_a_redirect(browse, origin, canary):
    browser = browse(only(origin), context="session")

    # The egress check is that of the HTTP client, whose tests have each spelling in each place.
    async def refused(number, literal):
        url = f"http://{literal}:{canary.port}/"
        if number % 2:
            url = origin.on(f"/{number}", redirect(url.encode().decode("latin-1")))
        with pytest.raises(OutOfScope):
            await fetch(browser, url)

    await asyncio.gather(*(refused(*one) for one in enumerate(INNER.split())))
    assert len(origin.asked) == len(INNER.split()) // 2
    assert canary.connections == 0


@pytest.mark.long
async def test_no_part_of_a_page_reaches_an_inner_address(browse, origin, canary):
    browser = browse(only(origin), wait="#tried", block=frozenset())
    urls = [f"http://{literal}:{canary.port}/" for literal in INNER.split()]
    urls += [f"https://{literal}:{canary.port}/" for literal in ("127.0.0.1", "localhost", "[::1]")]
    # Whether an address may be reached does not depend on the method: each by a quarter of them, some by all.
    await fetch(browser, origin.on("/", trying(urls, turns=4)))
    await fetch(browser, origin.on("/all", trying(urls[:1] + urls[-3:])))
    # A resource that was allowed may redirect to one that is not.
    moved = [origin.on(f"/to/{kind}", redirect(canary.url())) for kind in ("a", "b")]
    await fetch(browser, origin.on("/moved", trying(moved)))
    assert {"/to/a", "/to/b"} <= set(origin.paths)
    await asyncio.sleep(0.3)
    assert canary.connections == 0


async def test_the_canary_would_sing(browse, origin, canary):
    """Each method does send a request where that is allowed; else the tests above prove nothing."""
    browser = browse(Egress([LOOPBACK], lookup=loopback), wait="#tried", block=frozenset())
    await fetch(browser, origin.on("/", trying([canary.url("/{kind}").replace("%7B", "{")])))
    await asyncio.sleep(0.3)
    parts = "script frame image object embed video style preload prefetch form"
    words = f"fetch xhr beacon events socket worker {parts}".split()
    assert {path.strip("/?") for path in canary.paths} >= set(words)


class Names:
    """Resolves nothing; records which names were looked up."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    async def lookup(self, name: str) -> list[str]:
        self.asked.add(name)
        raise OSError("no such name")


@in_both
async def test_names_are_resolved_by_the_proxy_alone(browse, origin):
    names = Names()
    browser = browse(Egress([LOOPBACK], lookup=names.lookup), wait="#tried", block=frozenset())
    await fetch(browser, origin.on("/", trying(["http://a.canary.test/", "https://b.canary.test/"])))
    await fetch(browser, origin.on("/", html("<p id=tried>")))
    assert names.asked == {"a.canary.test", "b.canary.test"}


@pytest.mark.parametrize("is_held", [True, False], ids=["as it is", "without its flags"])
async def test_no_datagram_leaves_by_webrtc(browse, origin, monkeypatch, is_held):
    if not is_held:  # then the canary must be reached, or the test proves nothing
        kept = tuple(flag for flag in process.FLAGS if "webrtc" not in flag)
        monkeypatch.setattr(process, "FLAGS", kept)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as canary:
        canary.bind(("127.0.0.1", 0))
        canary.setblocking(False)
        port = canary.getsockname()[1]
        script = f"""const peer = new RTCPeerConnection({{iceServers: [
            {{urls: 'stun:127.0.0.1:{port}'}}, {{urls: 'stun:localhost:{port}'}}]}});
            peer.createDataChannel('x');
            peer.createOffer().then(offer => peer.setLocalDescription(offer));
            setTimeout(() => {{ document.body.id = 'tried' }}, 1500)"""
        url = origin.on("/", html(f"<body><script>{script}</script>"))
        await fetch(browse(wait="#tried"), url)
        with pytest.raises(BlockingIOError) if is_held else nullcontext():
            canary.recv(100)


async def test_files_and_pages_of_the_browser_itself_are_no_pages(browse, origin, tmp_path):
    (tmp_path / "secret").write_text("secret")
    browser = browse(wait="#tried")
    for url in (
        f"file://{tmp_path}/secret",
        "chrome://version",
        "about:blank",
        "data:text/html,x",
        "ftp://h/",
    ):
        with pytest.raises(OutOfScope):
            await fetch(browser, url)
    inner = [f"file://{tmp_path}/secret", "chrome://version/", "view-source:http://127.0.0.1/"]
    script = f"{TRIES} for (const u of {json.dumps(inner)}) {{ try {{ location = u }} catch {{}} }}"
    body = f"<body><script>{script} setTimeout(() => {{ document.body.id = 'tried' }}, 300)</script>"
    response = await fetch(browser, origin.on("/", html(body)))
    assert response.url == origin.url("/")
    assert b"secret</" not in response.body
