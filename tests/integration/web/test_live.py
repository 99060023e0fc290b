"""Event streams: what they send, what they cost, and that they end."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx2
import msgspec
import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.model import Done, Task
from shoal.web import stream
from tests.cases import long
from tests.integration.processes import start_process
from tests.integration.web.conftest import OPERATOR, Dashboard, open_dashboard

TABS = 20
TIMEOUT = 30.0
Event = tuple[str, str]


async def events(response: httpx2.Response) -> AsyncIterator[Event]:
    """Yield the events of a stream as a browser reads them."""
    name, data = "", []
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data.append(line.removeprefix("data: "))
        elif not line and name:
            yield name, "\n".join(data)
            name, data = "", []


async def take(response: httpx2.Response, *names: str) -> dict[str, str]:
    """Return the first event of each name."""
    found: dict[str, str] = {}
    async with asyncio.timeout(TIMEOUT):
        async for name, text in events(response):
            found.setdefault(name, text)
            if found.keys() >= set(names):
                break
    return found


async def make_run(dashboard: Dashboard, pages: int = 3) -> str:
    """Return the id of a run with this number of pending tasks."""
    run = await dashboard.queue.start_run("books")
    tasks = [Task(url=f"https://shop{n}.example/", step="listing") for n in range(pages)]
    await dashboard.queue.enqueue(run.id, tasks)
    return run.id


async def test_the_overview_is_sent_once_and_then_only_its_changes(dashboard):
    run_id = await make_run(dashboard)
    async with dashboard.client() as client, client.stream("GET", "/live") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        reading, seen = events(response), {}
        while "point" not in seen:
            name, text = await anext(reading)
            seen[name] = text
        assert seen.keys() >= {"history", *stream.OVERVIEW_PARTS, "title"}
        assert run_id in seen["runs"] and msgspec.json.decode(seen["title"]).endswith("3 left")
        (lease,) = (await dashboard.queue.claim("me", run_id=run_id, limit=1)).leases
        await dashboard.queue.settle([Done(lease)])
        again = [await anext(reading) for _ in range(3)]
        while "runs" not in dict(again):
            again.append(await anext(reading))
        assert "status" not in dict(again)


async def test_the_page_of_a_run_streams_its_counts_and_the_points_of_its_chart(dashboard):
    run_id = await make_run(dashboard)
    async with dashboard.client() as client, client.stream("GET", f"/live/runs/{run_id}") as response:
        found = await take(response, "history", "head", "steps", "workers", "errors", "title", "point")
    assert "listing" in found["steps"] and "Pause" in found["head"]
    at, rate = msgspec.json.decode(found["point"])
    assert at > 0 and rate == 0


async def test_a_reader_is_sent_no_buttons(dashboard):
    run_id = await make_run(dashboard)
    reader = dashboard.client(dashboard.context.settings.reader_token)
    async with reader as client, client.stream("GET", f"/live/runs/{run_id}") as response:
        assert "Pause" not in (await take(response, "head"))["head"]


async def test_there_is_no_stream_without_a_token_or_for_an_unknown_run(dashboard):
    async with httpx2.AsyncClient(base_url=dashboard.address) as anonymous:
        assert (await anonymous.get("/live")).status_code == 401
    async with dashboard.client() as client:
        assert (await client.get("/live/runs/20250101_000000_none")).status_code == 404


async def test_twenty_open_tabs_cost_no_more_samples_than_one(dashboard):
    await make_run(dashboard)
    sampler = dashboard.context.sampler
    async with dashboard.client() as client:
        tabs = [asyncio.create_task(watch(client)) for _ in range(TABS)]
        await until(lambda: sampler.clients == TABS)
        before, sample = sampler.sample_count, sampler.latest
        for _ in range(5):
            sample = await sampler.next_sample(sample)
        assert sampler.sample_count - before <= 6
        for tab in tabs:
            tab.cancel()
        await asyncio.wait(tabs)


async def watch(client: httpx2.AsyncClient) -> None:
    """Keep a tab open."""
    async with client.stream("GET", "/live") as response:
        async for _ in response.aiter_lines():
            pass


async def test_a_client_that_disconnects_is_not_counted(dashboard):
    async with dashboard.client() as client, client.stream("GET", "/live") as response:
        await take(response, "runs")
    await until(lambda: dashboard.context.sampler.clients == 0)


async def test_the_number_of_streams_is_limited(dashboard, monkeypatch):
    monkeypatch.setattr(stream, "MAX_CLIENTS", 1)
    async with dashboard.client() as client, client.stream("GET", "/live") as response:
        await take(response, "runs")
        refused = await client.get("/live")
    assert refused.status_code == 503 and refused.headers["retry-after"]


async def test_an_idle_stream_sends_keep_alives(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "KEEP_ALIVE_INTERVAL", timedelta(seconds=0.05))
    async with (
        open_dashboard(tmp_path, interval=timedelta(hours=1)) as dashboard,
        dashboard.client() as client,
        asyncio.timeout(TIMEOUT),
        client.stream("GET", "/live") as response,
    ):
        async for line in response.aiter_lines():
            if line == ": keep-alive":
                break


async def test_a_stream_ends_after_a_while_so_that_an_expired_session_is_noticed(dashboard, monkeypatch):
    monkeypatch.setattr(stream, "STREAM_TIMEOUT_SECONDS", 0.1)
    async with dashboard.client() as client, asyncio.timeout(TIMEOUT):
        assert "event: runs" in (await client.get("/live")).text


async def test_a_stream_reports_an_unavailable_queue_and_recovers(dashboard, monkeypatch):
    await make_run(dashboard)

    async def unavailable():
        raise QueueUnavailable("sqlite:///queue.db", "the disk is gone")

    async with dashboard.client() as client, client.stream("GET", "/live") as response:
        reading = events(response)
        with monkeypatch.context() as patch:
            patch.setattr(dashboard.queue, "runs", unavailable)
            async with asyncio.timeout(TIMEOUT):
                while "the disk is gone" not in dict([await anext(reading)]).get("queue_error", ""):
                    pass
        async with asyncio.timeout(TIMEOUT):
            while dict([await anext(reading)]).get("queue_error") != "":
                pass


async def test_scraped_text_cannot_inject_an_event(dashboard):
    hostile = "x\r\revent: title\rdata: forged\r\n\n"
    run = await dashboard.queue.start_run("books")
    await dashboard.queue.enqueue(run.id, [Task(url="https://shop.example/", step="listing")])
    await dashboard.queue.beat("worker\u2028", run_id=run.id, info={"errors": {hostile: 3}})
    async with dashboard.client() as client, client.stream("GET", "/live") as response:
        found = await take(response, "errors", "title", "point")
    assert "forged" in found["errors"] and "forged" not in found["title"]


@pytest.mark.parametrize("number", [signal.SIGTERM, *long(signal.SIGINT)])
async def test_an_open_stream_does_not_block_the_shutdown(tmp_path, number):
    command = [sys.executable, "-m", "shoal", "serve", "--port", "0", "--queue", f"sqlite:///{tmp_path}/q.db"]
    process = await start_process(
        *command,
        cwd=tmp_path,
        env={**os.environ, "SHOAL_WEB_TOKEN": OPERATOR},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        # A busy machine may take half a minute for the start, which is no part of the promise.
        line = (await process.stderr.readline()).decode()
        address = line.partition("Serving Shoal at ")[2].split()[0]
        headers = {"Authorization": f"Bearer {OPERATOR}"}
        async with (
            httpx2.AsyncClient(base_url=address, headers=headers, timeout=TIMEOUT) as client,
            client.stream("GET", "/live") as response,
        ):
            reading = events(response)
            while (await anext(reading))[0] != "status":
                pass
            process.send_signal(number)
            async with asyncio.timeout(TIMEOUT):
                async for _ in reading:  # the stream is closed in good order, else this raises
                    pass
                assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def until(condition):
    """Wait until a condition is true."""
    async with asyncio.timeout(TIMEOUT):
        while not condition():
            await asyncio.sleep(0.01)
