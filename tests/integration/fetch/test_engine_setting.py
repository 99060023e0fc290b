"""The setting `engine`: which HTTP client a run really uses."""

import asyncio

import pytest

from tests.integration.engine.shell import typed

SCRAPER = """
import sys

from shoal import Page, Scraper

pages = Scraper("pages", rate=None, robots=False, retries=0)

@pages.step
async def page(page: Page):
    yield {"title": page.text("title"), "aiohttp": "aiohttp" in sys.modules}
"""
PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 22\r\n\r\n<title>A page!</title>"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pages.py").write_text(SCRAPER)
    return tmp_path


@pytest.fixture
async def requests():
    """Record every request as its client wrote it."""
    seen = []

    async def serve(reader, writer):
        seen.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(PAGE)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/", seen


async def run(folder, url, *options):
    words = ("run", "pages.py", "--url", url, "--out", "-", *options)
    return await typed(*words, folder=folder)


async def test_a_run_uses_the_engine_of_its_option(folder, requests):
    url, seen = requests
    done = await run(folder, url, "--engine", "aiohttp")
    assert done.row == {"title": "A page!", "aiohttp": True}
    (request,) = seen
    assert "\r\nHost: 127.0.0.1" in request  # wreq writes the names of headers in lower case


async def test_proxies_need_the_default_engine(folder, requests):
    url, _ = requests
    (folder / "proxies.txt").write_text("http://127.0.0.1:9\n")
    done = await run(folder, url, "--engine", "aiohttp", "--proxies", "proxies.txt")
    assert "engine 'aiohttp' does not support proxies; use engine='wreq'" in done.err
