"""Decompression bombs: the process that fetches one stays small."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.integration.fetch.bombs import brotli_bomb, gzip_bomb, zstd_bomb
from tests.integration.fetch.hostile import endless, page
from tests.integration.processes import start_process

MIB = 1 << 20
LIMIT = 32 * MIB
ROOM = 64 * MIB  # beside the limit
ROOT = Path(__file__).parents[3]
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def probe(engine, url):
    """Fetch in a separate process; return its report."""
    process = await start_process(
        sys.executable,
        "-m",
        "tests.integration.fetch.probe",
        engine,
        url,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    return json.loads(out)


BOMBS = {
    "gzip": lambda: page(gzip_bomb(2_000), "Content-Encoding: gzip"),
    "br": lambda: page(brotli_bomb(200), "Content-Encoding: br"),
    "zstd": lambda: page(zstd_bomb(2_000), "Content-Encoding: zstd"),
    "without end": lambda: endless(b"HTTP/1.1 200 OK\r\n\r\n", bytes(65_536)),
}


# aiohttp accepts gzip alone, and what it gets is decoded by the same code.
@pytest.mark.parametrize(("engine", "name"), [*(("wreq", name) for name in BOMBS), ("aiohttp", "gzip")])
async def test_a_bomb_does_not_go_off(origin, engine, name):
    took = await probe(engine, origin.on("/", BOMBS[name]()))
    assert took["error"] == "TooLarge"
    assert took["peak"] < LIMIT + ROOM
    assert took["seconds"] < 10


async def test_a_bomb_in_robots_txt_does_not_go_off(origin):
    took = await probe("wreq", origin.on("/robots.txt", page(gzip_bomb(2_000), "Content-Encoding: gzip")))
    assert took["error"] == "RobotsUnavailable"
    assert took["grown"] < LIMIT + 32 * MIB


async def test_the_body_of_a_redirect_is_not_even_read(engine, origin):
    origin.on("/page", page())
    took = await probe(
        engine, origin.on("/", endless(b"HTTP/1.1 302 Found\r\nLocation: /page\r\n\r\n", bytes(65_536)))
    )
    assert took["error"] is None
    assert took["grown"] < 16 * MIB


async def test_a_body_of_single_bytes_costs_little_more_than_its_size(engine, origin):
    """Each chunk is an object for a moment; stored, they would need a hundred times their size."""
    chunks = CHUNKED + b"1\r\na\r\n" * 100_000 + b"0\r\n\r\n"
    took = await probe(engine, origin.on("/", chunks))
    assert took["error"] is None
    assert took["grown"] < 16 * MIB
