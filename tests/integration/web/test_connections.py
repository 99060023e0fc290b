"""Silent connections do not block other clients."""

import asyncio
import resource
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress

import pytest

from shoal.web import middleware, server
from tests.integration.web.conftest import OPERATOR, Dashboard

SILENT = 2_000


@pytest.fixture
def many_files() -> Iterator[None]:
    """Raises the file limit of this process, which is client and server at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8_192)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def connected(stack: AsyncExitStack, dashboard: Dashboard, sent: bytes) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection("127.0.0.1", dashboard.context.settings.port)
    stack.callback(writer.close)
    writer.write(sent)
    return reader


@pytest.mark.long
async def test_requests_are_served_next_to_two_thousand_silent_connections(dashboard, many_files):
    async with AsyncExitStack() as stack:
        for start in range(0, SILENT, 100):
            head = b"GET /healthz HTTP/1.1\r\nHost: x\r\n" if start % 200 else b""
            for _ in range(100):
                await connected(stack, dashboard, head)
        async with dashboard.client() as client:
            assert (await client.get("/healthz")).status_code == 200
            assert (await client.get("/api/runs")).status_code == 200


@pytest.mark.parametrize("served", [0, 1])
@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nX: 1\r\n"])
async def test_a_connection_that_never_ends_its_headers_is_closed(dashboard, monkeypatch, served, sent):
    monkeypatch.setattr(server, "HEAD_TIMEOUT_SECONDS", 0.2)
    async with AsyncExitStack() as stack:
        first = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * served
        reader = await connected(stack, dashboard, first + sent)
        with suppress(ConnectionResetError):
            async with asyncio.timeout(3):
                assert (await reader.read()).count(b"HTTP/1.1 200") == served


async def test_a_request_in_progress_has_no_such_deadline(dashboard, monkeypatch):
    monkeypatch.setattr(server, "HEAD_TIMEOUT_SECONDS", 0.2)
    async with AsyncExitStack() as stack:
        head = f"GET /live HTTP/1.1\r\nHost: 127.0.0.1:{dashboard.context.settings.port}\r\n"
        head += f"Authorization: Bearer {OPERATOR}\r\n\r\n"
        reader = await connected(stack, dashboard, head.encode())
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(10):
            while asyncio.get_running_loop().time() < began + 0.6:
                assert await reader.read(1024) != b""


async def test_a_keep_alive_connection_serves_several_requests(dashboard):
    async with AsyncExitStack() as stack:
        reader, writer = await asyncio.open_connection("127.0.0.1", dashboard.context.settings.port)
        stack.callback(writer.close)
        for _ in range(3):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            size = next(
                int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"
            )
            await reader.readexactly(size)


async def test_too_many_requests_in_progress_are_rejected_except_health_checks(dashboard, monkeypatch):
    monkeypatch.setattr(middleware, "MAX_REQUESTS", 0)
    async with dashboard.client() as client:
        response = await client.get("/api/runs")
        assert (response.status_code, response.json()["error"]) == (503, "Overloaded")
        assert (await client.get("/healthz")).status_code == 200
