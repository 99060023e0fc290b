"""Decompression bombs: the process that fetches one stays small."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.integration.fetch.bombs import brotli_bomb, chained, deflate_bomb, gzip_bomb, zstd_bomb
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
    "gzip": lambda: page(gzip_bomb(10_000), "Content-Encoding: gzip"),
    "br": lambda: page(brotli_bomb(1_000), "Content-Encoding: br"),
    "zstd": lambda: page(zstd_bomb(10_000), "Content-Encoding: zstd"),
    "deflate": lambda: page(deflate_bomb(10_000), "Content-Encoding: deflate"),
    "gzip three times": lambda: page(chained(10_000, 3), "Content-Encoding: gzip, gzip, gzip"),
    "on a 404": lambda: page(gzip_bomb(10_000), "Content-Encoding: gzip", status="404 Not Found"),
    "without end": lambda: endless(b"HTTP/1.1 200 OK\r\n\r\n", bytes(65_536)),
    "without end, in chunks": lambda: endless(CHUNKED, b"10000\r\n" + bytes(65_536) + b"\r\n"),
}


# Of those, one for each way to decompress, and one that does not: each takes a process of its own.
SHORT = {"gzip", "br", "zstd", "without end"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in SHORT else pytest.mark.long) for name in BOMBS],
)
async def test_a_bomb_does_not_go_off(engine, origin, name):
    took = await probe(engine, origin.on("/", BOMBS[name]()))
    # aiohttp does not decode what it does not accept.
    is_refused = engine == "aiohttp" and name in ("br", "zstd")
    assert took["error"] == ("BrokenAnswer" if is_refused else "TooLarge")
    assert took["peak"] < LIMIT + ROOM
    assert took["seconds"] < 10


async def test_a_bomb_in_robots_txt_does_not_go_off(engine, origin):
    took = await probe(engine, origin.on("/robots.txt", page(gzip_bomb(10_000), "Content-Encoding: gzip")))
    assert took["error"] == "RobotsUnavailable"
    assert took["grown"] < LIMIT + 32 * MIB


@pytest.mark.parametrize("size", ["a bomb", "endless"])
async def test_the_body_of_a_redirect_is_not_even_read(engine, origin, size):
    head = "302 Found"
    bombs = {
        "a bomb": page(gzip_bomb(10_000), "Content-Encoding: gzip", "Location: /page", status=head),
        "endless": endless(b"HTTP/1.1 302 Found\r\nLocation: /page\r\n\r\n", bytes(65_536)),
    }
    origin.on("/page", page())
    took = await probe(engine, origin.on("/", bombs[size]))
    assert took["error"] is None
    assert took["grown"] < 16 * MIB


async def test_a_body_of_single_bytes_costs_little_more_than_its_size(engine, origin):
    """Each chunk is an object for a moment; stored, they would need a hundred times their size."""
    chunks = CHUNKED + b"1\r\na\r\n" * 100_000 + b"0\r\n\r\n"
    took = await probe(engine, origin.on("/", chunks))
    assert took["error"] is None
    assert took["grown"] < 16 * MIB
