"""Connections that send nothing, or never an end, keep nobody else out."""

import asyncio
import resource
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress

import pytest

from shoal.web import door
from shoal.web.connections import MAX_IDLE, IdleConnections
from tests.integration.web.conftest import OPERATOR, Place, opened

SILENT = 2_000


@pytest.fixture
def many_files() -> Iterator[None]:
    """Lets this process, which is client and server at once, have as many connections as the test needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8_192)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def connected(stack: AsyncExitStack, place: Place, sent: bytes = b"") -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection("127.0.0.1", place.site.settings.port)
    stack.callback(writer.close)
    writer.write(sent)
    return reader


async def test_health_is_told_and_pages_are_served_beside_two_thousand_silent_connections(place, many_files):
    async with AsyncExitStack() as stack:
        readers = []
        for start in range(0, SILENT, 100):
            head = b"GET /healthz HTTP/1.1\r\nHost: x\r\n" if start % 200 else b""
            readers += [await connected(stack, place, head) for _ in range(100)]
        async with place.client() as client:
            assert (await client.get("/healthz")).status_code == 200
            assert (await client.get("/api/runs")).status_code == 200
        open_ones = [reader for reader in readers if not reader.at_eof()]
        assert len(open_ones) <= MAX_IDLE


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nX: 1\r\n"])
async def test_a_request_that_never_ends_its_headers_is_cut_off(tmp_path, sent):
    async with opened(tmp_path, idle=IdleConnections(head_timeout=0.2)) as place, AsyncExitStack() as stack:
        reader = await connected(stack, place, sent)
        with suppress(ConnectionResetError):
            async with asyncio.timeout(10):
                assert await reader.read() == b""


async def test_a_request_in_progress_has_no_such_deadline(tmp_path):
    async with opened(tmp_path, idle=IdleConnections(head_timeout=0.2)) as place, AsyncExitStack() as stack:
        head = f"GET /live HTTP/1.1\r\nHost: 127.0.0.1:{place.site.settings.port}\r\n"
        head += f"Authorization: Bearer {OPERATOR}\r\n\r\n"
        reader = await connected(stack, place, head.encode())
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(10):
            while asyncio.get_running_loop().time() < began + 0.6:
                assert await reader.read(1024) != b""


async def test_a_connection_that_is_kept_alive_serves_several_requests(place):
    async with AsyncExitStack() as stack:
        reader, writer = await asyncio.open_connection("127.0.0.1", place.site.settings.port)
        stack.callback(writer.close)
        for _ in range(3):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            size = next(
                int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"
            )
            await reader.readexactly(size)


async def test_too_many_requests_in_progress_are_refused_but_health_is_told(place, monkeypatch):
    monkeypatch.setattr(door, "MAX_REQUESTS", 0)
    async with place.client() as client:
        answer = await client.get("/api/runs")
        assert (answer.status_code, answer.json()["error"]) == (503, "Overloaded")
        assert (await client.get("/healthz")).status_code == 200
