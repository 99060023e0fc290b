"""Nothing is left behind: by pages, crashes, retired browsers, and workers that were killed."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from shoal.core.errors import BrowserLost, FetchError, FetchTimeout, NoTabFree, PageCrashed, TooLarge
from shoal.core.http import Identity, Request
from shoal.fetch.browser import fetcher, tab
from shoal.fetch.browser.process import FOLDER, memory_of, process_tree
from shoal.fetch.http.cookies import CookieJar
from tests.cases import long
from tests.integration.browser.conftest import fetch, in_both
from tests.integration.browser.test_pages import html
from tests.integration.processes import start_process

PAGES = int(os.environ.get("SHOAL_PAGES", "20"))
ROOT = Path(__file__).parents[3]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pids: list[int], seconds: float = 10) -> list[int]:
    """Wait until none of them is alive; return those that still are."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (left := [pid for pid in pids if is_alive(pid)]) and loop.time() < until:
        await asyncio.sleep(0.05)
    return left


def renderers(pid: int) -> list[int]:
    def is_one(one: int) -> bool:
        with suppress(OSError):
            return b"--type=renderer" in Path(f"/proc/{one}/cmdline").read_bytes()
        return False

    return [one for one in process_tree(pid) if is_one(one)]


def kill_renderers(browser):
    """Kill those that exist, and return which; one may exit by itself before the signal."""
    pids = renderers(browser)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


def knows_of_crashes(fetcher):
    """Tell whether every tab that is ready for a page, as far as is known, has a process."""
    browser = fetcher._current
    ready = [tab for context in browser._contexts.values() for tab in context.idle]
    if browser._spare:
        if not browser._spare.done():
            return False  # its process may be among those that were killed
        ready.append(browser._spare.result()[0])
    sound = sum(not tab.is_broken for tab in ready)
    return not browser._closing_count and sound <= len(renderers(browser.pid))


def folders() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob(f"{FOLDER}{os.getpid()}-*")}


@pytest.mark.long
async def test_browsers_are_recycled_and_nothing_grows(browse, origin):
    browser = browse(max_pages=PAGES // 5, wait="#made")
    url = origin.on("/", html("<body><script>document.body.innerHTML = '<p id=made>made'</script>"))
    pids, counts, sizes = set(), [], []

    async def visit(count):
        for _ in range(count):
            assert b'id="made"' in (await fetch(browser, url)).body
            pids.update(browser.pids)
            counts.append(sum(len(process_tree(pid)) for pid in browser.pids))
            sizes.append(sum(memory_of(pid) for pid in browser.pids))

    await asyncio.gather(*(visit(PAGES // 4) for _ in range(4)))
    everybody = [one for pid in pids for one in process_tree(pid)]
    print(f"{len(pids)} browsers, at most {max(counts)} processes, {max(sizes) >> 20} MB")
    assert len(pids) >= 4
    # Two browsers at most, each with a few processes of its own, one for each tab, and some that are ending.
    assert max(counts) < 2 * (8 + 3 * 4)
    third = len(sizes) // 3
    assert max(sizes[-third:]) < 2 * max(sizes[third : 2 * third])
    await browser.close()
    assert await gone([*everybody, *pids]) == []
    assert folders() == set()


async def test_a_browser_that_is_replaced_is_in_the_log_with_the_reason(browse, origin, caplog):
    caplog.set_level("INFO", "shoal.fetch.browser")
    browser = browse(max_pages=2)
    url = origin.on("/", html("<p>"))
    for _ in range(3):
        await fetch(browser, url)
        pids = browser.pids
    assert [record.getMessage() for record in caplog.records] == [
        f"The browser (pid {caplog.records[0].args[0]}) is replaced: it has opened 2 pages, max_pages=2"
    ]
    assert caplog.records[0].args[0] not in pids[:1]


async def test_a_crashed_page_costs_one_attempt_and_no_other_page(browse, origin):
    browser = browse(wait="#never", tabs=2)
    url = origin.on("/", html("<p>"))
    fetching = asyncio.create_task(fetch(browser, url))
    while "/" not in origin.paths:
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.3)
    killed = kill_renderers(browser.pids[0])
    with pytest.raises(PageCrashed):
        await fetching
    async with asyncio.timeout(10):
        # The tab that is ready for the next page has crashed too, which the browser tells a moment later.
        while any(map(is_alive, killed)) or not knows_of_crashes(browser):
            await asyncio.sleep(0.02)
    origin.on("/", html("<p id=never>"))
    assert (await fetch(browser, url)).status == 200


@pytest.mark.parametrize("context", ["session", *long("task")])
async def test_a_tab_that_crashes_before_its_page_is_asked_for_costs_nothing(browse, origin, context):
    browser = browse(tabs=1, context=context)
    url = origin.on("/", html("<p>"))
    await fetch(browser, url)
    first = browser.pids[0]
    for round in range(3):
        await asyncio.sleep(0.03 * round)  # while the next tab is being prepared, or is idle
        killed = kill_renderers(first)
        async with asyncio.timeout(10):
            # Before the browser tells of the crash, the page would be requested in a tab that is no more.
            while any(map(is_alive, killed)) or not knows_of_crashes(browser):
                await asyncio.sleep(0.02)
            assert (await fetch(browser, url)).status == 200
    assert browser.pids[0] == first


async def test_a_crashed_browser_is_replaced(browse, origin):
    browser = browse(wait="#never")
    url = origin.on("/", html("<p>"))
    fetching = asyncio.create_task(fetch(browser, url))
    while "/" not in origin.paths:
        await asyncio.sleep(0.05)
    first = browser.pids[0]
    everybody = process_tree(first)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(PageCrashed):
        await fetching
    origin.on("/", html("<p id=never>"))
    assert (await fetch(browser, url)).status == 200
    assert browser.pids[0] != first
    assert await gone(everybody) == []


async def test_a_browser_that_ends_under_several_pages_costs_none_an_attempt_and_finds_the_one_at_fault(
    browse, origin
):
    browser = browse(wait="#done", tabs=3)
    paths = ["/fatal", "/a", "/b"]
    fetching = [asyncio.create_task(fetch(browser, origin.on(path, html("<p>")))) for path in paths]
    while set(paths) - set(origin.paths):
        await asyncio.sleep(0.05)
    first = browser.pids[0]
    os.kill(first, signal.SIGKILL)
    for task in fetching:
        with pytest.raises(BrowserLost):
            await task
    # Each has its own browser now: the page that is fatal again is charged, and costs the other nothing.
    trials = [asyncio.create_task(fetch(browser, origin.url(path))) for path in ("/fatal", "/a")]
    while min(origin.paths.count("/fatal"), origin.paths.count("/a")) < 2:
        await asyncio.sleep(0.05)
    alone = {one.pid: next(tab.url for tab in one._open_tabs) for one in browser._retired}
    assert first not in alone and len(alone) == 2
    os.kill(next(pid for pid, url in alone.items() if url.endswith("/fatal")), signal.SIGKILL)
    with pytest.raises(PageCrashed):
        await trials[0]
    for path in ("/a", "/b"):
        origin.on(path, html("<p id=done>"))
    trials[1].cancel()
    assert [(await fetch(browser, origin.url(path))).status for path in ("/a", "/b")] == [200, 200]
    assert (await fetch(browser, origin.url("/a"))).status == 200
    async with asyncio.timeout(10):
        while len(browser.pids) != 1:  # those that had one page have ended
            await asyncio.sleep(0.05)


async def test_a_page_that_takes_far_too_much_memory_is_ended_alone(browse, origin):
    greedy = "const kept = []; setInterval(() => kept.push(new Uint8Array(8 << 20).fill(1)), 5)"
    browser = browse(wait="#done", tabs=2, memory=256 << 20)
    later = "setInterval(() => fetch('/is-over').then(r => r.ok && (document.body.id = 'done')), 50)"
    other = asyncio.create_task(fetch(browser, origin.on("/slow", html(f"<body><script>{later}</script>"))))
    while "/is-over" not in origin.paths:
        await asyncio.sleep(0.05)
    with pytest.raises(PageCrashed):
        await fetch(browser, origin.on("/", html(f"<script>{greedy}</script>")))
    origin.on("/is-over", html(""))
    assert (await other).status == 200


async def test_a_page_that_hangs_is_gone_after_its_deadline(browse, origin):
    browser = browse()
    url = origin.on("/", html("<script>while (true) {}</script>"))
    assert (await fetch(browser, origin.on("/well", html("<p>")))).status == 200
    with pytest.raises(FetchTimeout):
        await fetch(browser, url, seconds=1)
    # The process with the endless loop is gone, and uses no more CPU.
    async with asyncio.timeout(10):
        while any(_busy(pid) for pid in renderers(browser.pids[0])):
            await asyncio.sleep(0.5)
    assert (await fetch(browser, origin.url("/well"))).status == 200


def _busy(pid: int) -> bool:
    def ticks() -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    with suppress(OSError):
        before = ticks()
        time.sleep(0.2)
        return ticks() - before >= 10
    return False


async def test_a_browser_that_takes_far_too_much_memory_is_ended(browse, origin):
    browser = browse(memory=64 << 20, wait="#never")
    greedy = "const kept = []; setInterval(() => kept.push(new Uint8Array(8 << 20).fill(1)), 5)"
    with pytest.raises(FetchError):
        await fetch(browser, origin.on("/", html(f"<script>{greedy}</script>")), seconds=15)
    assert (await fetch(browse(), origin.on("/well", html("<p>")))).status == 200


async def test_who_comes_when_all_tabs_are_taken_waits_or_is_sent_back(browse, origin, monkeypatch):
    monkeypatch.setattr(fetcher, "MAX_WAITERS", 4)
    browser = browse(tabs=1)
    url = origin.on("/", html("<p>"))
    first = await browser.fetch(Request(url=url))
    asked = len(origin.asked)
    waiting = [asyncio.create_task(fetch(browser, url)) for _ in range(4)]
    await asyncio.sleep(0.2)
    with pytest.raises(NoTabFree):
        await fetch(browser, url)
    assert len(origin.asked) == asked
    waiting[1].cancel()
    first.live.release()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert [getattr(answer, "status", None) for answer in answers] == [200, None, 200, 200]


async def test_an_error_before_the_request_sends_no_request(browse, origin):
    browser = browse(tabs=1)
    url = origin.on("/", html("<p>"))

    def too_late():
        raise LookupError("too late")

    with pytest.raises(LookupError):
        await browser.fetch(Request(url=url, on_send=too_late))
    assert origin.asked == []
    assert (await fetch(browser, url)).status == 200


WORKER = """
import asyncio, sys
from datetime import timedelta
from shoal.core.browser_settings import BrowserSettings
from shoal.core.http import Identity, Request
from shoal.fetch.browser.fetcher import BrowserFetcher
from shoal.fetch.browser.process import process_tree
from shoal.fetch.egress import Egress

async def main():
    fetcher = BrowserFetcher(BrowserSettings(wait="load", tabs=3), egress=Egress(["127.0.0.0/8"]), agent="x")
    hang = asyncio.create_task(fetcher.fetch(Request(url=sys.argv[1] + "hang")))
    kept = [await fetcher.fetch(Request(url=sys.argv[1])) for _ in range(2)]
    await asyncio.sleep(0.5)
    print(*(one for pid in fetcher.pids for one in process_tree(pid)), flush=True)
    await asyncio.sleep(600)

import uvloop
uvloop.run(main())
"""


@pytest.fixture
def own_temporary_folder(monkeypatch):
    """A temporary folder that no browser of another test looks into, with a path short enough for sockets.

    Name it before `browse`, whose browsers write there until they are closed.
    """
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)
        assert list(Path(folder).glob(f"{FOLDER}*")) == []


async def test_a_killed_worker_leaves_no_process_behind(own_temporary_folder, browse, origin):
    browse()  # which skips the test where there is no browser
    origin.on("/", html("<p>"))
    origin.on("/hang", html("<script>while (true) {}</script>"))
    worker = await start_process(
        sys.executable,
        "-c",
        WORKER,
        origin.url("/"),
        stdout=subprocess.PIPE,
        cwd=ROOT / "src",
        env={**os.environ, "TMPDIR": str(own_temporary_folder)},
    )
    async with asyncio.timeout(60):
        pids = list(map(int, (await worker.stdout.readline()).split()))
    assert len(pids) > 3 and all(map(is_alive, pids))
    worker.kill()
    await worker.wait()
    assert await gone(pids) == []
    # Its files are removed by the next process that starts a browser.
    assert list(own_temporary_folder.glob(f"{FOLDER}{worker.pid}-*"))
    await fetch(browse(), origin.url("/"))
    assert not list(own_temporary_folder.glob(f"{FOLDER}{worker.pid}-*"))


@pytest.mark.long
@in_both
async def test_sessions_and_proxies_change_and_tabs_stay_few(browse, origin):
    browser = browse(context="session", tabs=2)
    url = origin.on("/", html("<p>"))
    for number in range(6):
        await fetch(browser, url, identity=Identity(key=str(number), cookies=CookieJar()))
    await asyncio.sleep(0.3)
    # One for each tab, and none that Chromium keeps ready.
    assert len(renderers(browser.pids[0])) <= 2


async def test_a_page_that_never_stops_doing_things_is_ended(browse, origin, monkeypatch):
    monkeypatch.setattr(tab, "MAX_EVENTS", 500)
    frames = "setInterval(() => { document.body.innerHTML = '<iframe srcdoc=x></iframe>'.repeat(50) }, 1)"
    browser = browse(wait="#never")
    with pytest.raises(TooLarge, match="more than 500 events"):
        await fetch(browser, origin.on("/", html(f"<body><script>{frames}</script>")))
    assert (await fetch(browse(), origin.on("/well", html("<p>")))).status == 200
