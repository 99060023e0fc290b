"""Decompression bombs: the page that loads one fails, and its browser stays small."""

import asyncio
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from shoal.core.errors import TooLarge
from shoal.fetch.browser.process import process_tree
from shoal.fetch.contract import Limits
from tests.cases import long
from tests.integration.browser.conftest import fetch
from tests.integration.browser.test_pages import html
from tests.integration.fetch.bombs import brotli_bomb, chained, gzip_bomb
from tests.integration.fetch.hostile import page

MIB = 1 << 20
LIMIT = 8 * MIB
ROOM = 300 * MIB  # beside the limit and what the browser needs for a small page
SIZE = 500  # MiB of each bomb
LOOK_EVERY = 0.02  # seconds

PACKED = {
    "gzip": lambda: (gzip_bomb(SIZE), "gzip"),
    "br": lambda: (brotli_bomb(SIZE), "br"),
    "gzip twice": lambda: (chained(SIZE, 2), "gzip, gzip"),
}


def proportional_memory(pid: int) -> int:
    """Return the bytes of a browser's processes; what they share is counted once (PSS)."""
    total = 0
    for one in process_tree(pid):
        with suppress(OSError, IndexError, StopIteration):
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) << 10
    return total


@asynccontextmanager
async def measured(browser):
    """Yield a list of the browser's memory, sampled while the block runs."""
    sizes: list[int] = []

    async def look() -> None:
        while True:
            sizes.append(await asyncio.to_thread(lambda: sum(map(proportional_memory, browser.pids))))
            await asyncio.sleep(LOOK_EVERY)

    looking = asyncio.create_task(look())
    try:
        yield sizes
    finally:
        looking.cancel()


@pytest.mark.parametrize(
    ("packed", "kind"),
    [("gzip", "text/html"), *long(("br", "application/json"), ("gzip twice", "text/html"))],
)
async def test_a_bomb_ends_its_own_page_and_the_browser_stays_small(browse, origin, packed, kind):
    browser = browse(limits=Limits(max_body=LIMIT), tabs=2, wait="#done")
    well = origin.on("/well", html("<p id=done>"))
    later = "setInterval(() => fetch('/is-over').then(r => r.ok && (document.body.id = 'done')), 50)"
    slow = origin.on("/slow", html(f"<body><script>{later}</script>"))
    body, encoding = PACKED[packed]()
    bomb = origin.on("/bomb", page(body, f"Content-Type: {kind}", f"Content-Encoding: {encoding}"))
    other = asyncio.create_task(fetch(browser, slow, seconds=60))
    while "/is-over" not in origin.paths:
        await asyncio.sleep(0.02)
    pids = browser.pids
    before = sum(map(proportional_memory, pids))
    async with measured(browser) as sizes:
        with pytest.raises(TooLarge):
            await fetch(browser, bomb, seconds=30)
        assert (await fetch(browser, well)).status == 200
    print(f"{packed} {kind}: {before >> 20} MB before, {max(sizes) >> 20} MB at most, {len(sizes)} looks")
    assert max(sizes) < before + LIMIT + ROOM
    origin.on("/is-over", page())
    assert (await other).status == 200
    assert browser.pids == pids


READ = "fetch('{}').then(r => r.arrayBuffer())"
PARTS = {
    "fetch": ("127.0.0.1", f"<script>{READ}</script>"),
    "script": ("127.0.0.1", "<script src='{}'></script>"),
    "frame": ("elsewhere.test", "<iframe src='{}'></iframe>"),
    "worker": ("127.0.0.1", f"<script>new Worker(URL.createObjectURL(new Blob([`{READ}`])))</script>"),
}


async def test_a_bomb_among_the_parts_of_a_page_ends_the_page(browse, origin):
    """Each is decoded by another part of the browser, and some do not report its size."""
    browser = browse(limits=Limits(max_body=LIMIT), tabs=1, wait="#never")
    await fetch(browser, origin.on("/never", html("<p id=never>")))
    before = sum(map(proportional_memory, browser.pids))
    for part, (host, text) in PARTS.items():
        kind = "text/javascript" if part == "script" else "text/html"
        fields = [f"Content-Type: {kind}", "Content-Encoding: gzip", "Access-Control-Allow-Origin: *"]
        origin.on("/bomb", page(gzip_bomb(SIZE), *fields))
        url = origin.on("/", html(text.format(origin.url("/bomb", host=host))))
        async with measured(browser) as sizes:
            with pytest.raises(TooLarge):
                await fetch(browser, url, seconds=30)
        print(f"{part}: {before >> 20} MB before, {max(sizes) >> 20} MB at most, {len(sizes)} looks")
        assert max(sizes) < before + LIMIT + ROOM
