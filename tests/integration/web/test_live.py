"""Streams: what they send, what they cost, and that they come to an end."""

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
from shoal.web import live
from tests.conftest import or_skip
from tests.integration.web.conftest import OPERATOR, Place, opened
from tests.servers.postgres import PostgresServer

TABS = 20
PATIENCE = 30.0
Event = tuple[str, str]


async def events(answer: httpx2.Response) -> AsyncIterator[Event]:
    """Yield the events of a stream as a browser reads them."""
    name, data = "", []
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data.append(line.removeprefix("data: "))
        elif not line and name:
            yield name, "\n".join(data)
            name, data = "", []


async def take(answer: httpx2.Response, *names: str) -> dict[str, str]:
    """Return the first event of each name."""
    found: dict[str, str] = {}
    async with asyncio.timeout(PATIENCE):
        async for name, text in events(answer):
            found.setdefault(name, text)
            if found.keys() >= set(names):
                break
    return found


async def a_run(place: Place, pages: int = 3) -> str:
    """Return the id of a run with so many pages to fetch."""
    run = await place.queue.start_run("books")
    tasks = [Task(url=f"https://shop{n}.example/", step="listing") for n in range(pages)]
    await place.queue.enqueue(run.id, tasks)
    return run.id


async def test_the_overview_comes_whole_and_then_only_what_changes(place):
    run_id = await a_run(place)
    async with place.client() as client, client.stream("GET", "/live") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        reading, seen = events(answer), {}
        while "point" not in seen:
            name, text = await anext(reading)
            seen[name] = text
        assert seen.keys() >= {"history", *live.OVERVIEW_PARTS, "title"}
        assert run_id in seen["runs"] and msgspec.json.decode(seen["title"]).endswith("3 left")
        (lease,) = (await place.queue.claim("me", run_id=run_id, limit=1)).leases
        await place.queue.settle([Done(lease)])
        again = [await anext(reading) for _ in range(3)]
        while "runs" not in dict(again):
            again.append(await anext(reading))
        assert "status" not in dict(again)


async def test_the_page_of_a_run_streams_its_counts_and_the_points_of_its_chart(place):
    run_id = await a_run(place)
    async with place.client() as client, client.stream("GET", f"/live/runs/{run_id}") as answer:
        found = await take(answer, "history", "head", "steps", "workers", "errors", "title", "point")
    assert "listing" in found["steps"] and "Pause" in found["head"]
    at, rate, completed, pending, dead = msgspec.json.decode(found["point"])
    assert at > 0 and (rate, completed, pending, dead) == (0, 0, 3, 0)


async def test_a_reader_is_sent_no_buttons(place):
    run_id = await a_run(place)
    reader = place.client(place.site.settings.reader_token)
    async with reader as client, client.stream("GET", f"/live/runs/{run_id}") as answer:
        assert "Pause" not in (await take(answer, "head"))["head"]


async def test_a_stranger_and_a_run_that_is_not_there_get_no_stream(place):
    async with httpx2.AsyncClient(base_url=place.address) as stranger:
        assert (await stranger.get("/live")).status_code == 401
    async with place.client() as client:
        assert (await client.get("/live/runs/20250101_000000_none")).status_code == 404


async def test_twenty_open_tabs_cost_no_more_looks_than_one(place):
    await a_run(place)
    sampler = place.site.sampler
    async with place.client() as client:
        tabs = [asyncio.create_task(watch(client)) for _ in range(TABS)]
        await until(lambda: sampler.clients == TABS)
        before, sample = sampler.looks, sampler.latest
        for _ in range(5):
            sample = await sampler.after(sample)
        assert sampler.looks - before <= 6
        for tab in tabs:
            tab.cancel()
        await asyncio.wait(tabs)


async def watch(client: httpx2.AsyncClient) -> None:
    """Keep a tab open."""
    async with client.stream("GET", "/live") as answer:
        async for _ in answer.aiter_lines():
            pass


async def test_a_client_that_goes_is_forgotten(place):
    async with place.client() as client, client.stream("GET", "/live") as answer:
        await take(answer, "runs")
    await until(lambda: place.site.sampler.clients == 0)


async def test_there_is_a_most_of_open_streams(place, monkeypatch):
    monkeypatch.setattr(live, "MOST_CLIENTS", 1)
    async with place.client() as client, client.stream("GET", "/live") as answer:
        await take(answer, "runs")
        refused = await client.get("/live")
    assert refused.status_code == 503 and refused.headers["retry-after"]


async def test_a_stream_with_nothing_to_say_stays_awake(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "KEEP_ALIVE", 0.05)
    async with (
        opened(tmp_path, every=timedelta(hours=1)) as place,
        place.client() as client,
        asyncio.timeout(PATIENCE),
        client.stream("GET", "/live") as answer,
    ):
        async for line in answer.aiter_lines():
            if line == ": still here":
                break


async def test_a_stream_ends_after_a_while_so_that_a_session_that_is_over_is_noticed(place, monkeypatch):
    monkeypatch.setattr(live, "LONGEST", 0.1)
    async with place.client() as client, asyncio.timeout(PATIENCE):
        assert "event: runs" in (await client.get("/live")).text


async def test_a_stream_says_that_the_queue_is_away_and_goes_on_when_it_is_back(place, monkeypatch):
    await a_run(place)

    async def away():
        raise QueueUnavailable("sqlite:///queue.db", "the disk is gone")

    async with place.client() as client, client.stream("GET", "/live") as answer:
        reading = events(answer)
        with monkeypatch.context() as patch:
            patch.setattr(place.queue, "runs", away)
            async with asyncio.timeout(PATIENCE):
                while "the disk is gone" not in dict([await anext(reading)]).get("trouble", ""):
                    pass
        async with asyncio.timeout(PATIENCE):
            while dict([await anext(reading)]).get("trouble") != "":
                pass


@pytest.mark.long
async def test_a_stream_goes_on_when_a_real_server_was_stopped_and_started_again(tmp_path):
    with or_skip(PostgresServer) as server:
        server.sql("CREATE DATABASE away")
        async with (
            opened(tmp_path, url=server.url("away")) as place,
            place.client() as client,
            client.stream("GET", "/live") as answer,
        ):
            reading = events(answer)
            for deed, is_away in ((server.stop, True), (server.start, False)):
                await asyncio.to_thread(deed)
                async with asyncio.timeout(2 * PATIENCE):
                    while bool(dict([await anext(reading)]).get("trouble", not is_away)) != is_away:
                        pass


async def test_scraped_text_cannot_begin_an_event_of_its_own(place):
    hostile = "x\r\revent: title\rdata: forged\r\n\n"
    run = await place.queue.start_run("books")
    await place.queue.enqueue(run.id, [Task(url="https://shop.example/", step="listing")])
    await place.queue.beat("worker\u2028", run_id=run.id, info={"errors": {hostile: 3}})
    async with place.client() as client, client.stream("GET", "/live") as answer:
        found = await take(answer, "errors", "title", "point")
    assert "forged" in found["errors"] and "forged" not in found["title"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_open_stream_does_not_keep_the_server_from_ending(tmp_path, number):
    command = [sys.executable, "-m", "shoal", "serve", "--port", "0", "--queue", f"sqlite:///{tmp_path}/q.db"]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=tmp_path,
        env={**os.environ, "SHOAL_WEB_TOKEN": OPERATOR},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            line = (await process.stderr.readline()).decode()
            address = line.partition("Shoal is at ")[2].split()[0]
            headers = {"Authorization": f"Bearer {OPERATOR}"}
            async with (
                httpx2.AsyncClient(base_url=address, headers=headers) as client,
                client.stream("GET", "/live") as answer,
            ):
                await take(answer, "status")
                process.send_signal(number)
                async with asyncio.timeout(10):
                    assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def until(is_so):
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE):
        while not is_so():
            await asyncio.sleep(0.01)
