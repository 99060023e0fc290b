"""Silent connections do not block other clients."""

import asyncio
import resource
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from shoal.web import middleware
from tests.integration.web.conftest import Dashboard

SILENT = 2_000


@pytest.fixture
def many_files() -> Iterator[None]:
    """Raises the file limit of this process, which is client and server at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8_192)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def connected(stack: AsyncExitStack, dashboard: Dashboard, sent: bytes) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", dashboard.context.settings.port)
    stack.callback(writer.close)
    writer.write(sent)


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
