"""Scraping on demand on every queue: a call brings the items of its page, and they are stored once."""

import asyncio
import os
import signal

import pytest

import shoal
from shoal.core.errors import TaskDied
from shoal.fleet.ondemand.client import CallClient, CallLost
from shoal.fleet.status.overview import worker_row
from shoal.fleet.status.rows.row import fields_of
from tests.integration.engine.calls import PAGES, first_holder, stored
from tests.integration.engine.origin import Answer


@pytest.fixture
async def app(any_bench):
    async with shoal.connect(any_bench.queue_url, folder=any_bench.folder) as app:
        yield app


@pytest.fixture
def pages(any_bench):
    return any_bench.write(PAGES)


async def listed(app, run):
    return [fields_of(worker_row(worker)) for worker in await app.queue.workers(run.id)]


async def test_a_call_returns_the_items_of_its_page_and_stores_them(bench, origin):
    origin.answer = lambda path: Answer(f"<title>{path}</title><a href=/next>next</a>")
    pages = bench.write(PAGES)
    async with shoal.connect(bench.queue_url, folder=bench.folder) as app:
        run = await app.listen(pages, workers=2)
        found = await asyncio.gather(*(app.scrape(pages, f"{origin.url}/{number}") for number in range(8)))
        assert [item["title"] for (item,) in found] == [f"/{number}" for number in range(8)]
        assert sorted(await stored(app, run), key=str) == sorted((item for (item,) in found), key=str)
        assert len({item["pid"] for (item,) in found}) == 2
        assert "/next" not in origin.visits  # a call is for one page
        async with asyncio.timeout(30):  # the next heartbeat has it
            while sum(row["completed"] for row in await listed(app, run)) < 8:
                await asyncio.sleep(0.1)
        assert sum(row["items"] for row in await listed(app, run)) == 8
        again = await app.scrape(pages, f"{origin.url}/1")
        assert again and origin.visits["/1"] == 2  # and it is a new visit


async def test_the_call_of_a_killed_worker_is_answered_by_another_and_stored_once(
    app, pages, origin, any_bench
):
    run = await app.listen(pages, workers=2)
    calling = asyncio.create_task(app.scrape(pages, f"{origin.url}/long"))
    holder = await first_holder(any_bench.folder)
    os.kill(holder, signal.SIGKILL)
    (item,) = await calling
    assert item["pid"] != holder
    assert await stored(app, run) == [item]
    assert origin.visits["/long"] == 2


async def test_the_call_of_a_killed_worker_is_not_repeated_for_a_step_at_most_once(bench, origin):
    code = PAGES.replace("@pages.step", "@pages.step(delivery='at_most_once')", 1)
    pages = bench.write(f"{code}\n    @pages.step\n    def other(page: Page): ...\n")
    async with shoal.connect(bench.queue_url, folder=bench.folder) as app:
        run = await app.listen(pages, workers=2)
        calling = asyncio.create_task(app.scrape(pages, f"{origin.url}/long"))
        os.kill(await first_holder(bench.folder), signal.SIGKILL)
        with pytest.raises(TaskDied, match="at_most_once"):
            await calling
        assert (await app.queue.stats(run.id)).dead == 1
    assert origin.visits["/long"] == 1


async def test_a_result_that_was_stored_before_the_answer_was_lost_is_found_and_not_made_again(
    bench, origin, monkeypatch
):
    async def lose_the_answer(caller, worker, call):
        await called(caller, worker, call)
        raise CallLost("the connection broke")

    called = CallClient.call
    monkeypatch.setattr(CallClient, "call", lose_the_answer)
    pages = bench.write(PAGES)
    async with shoal.connect(bench.queue_url, folder=bench.folder) as app:
        run = await app.listen(pages)
        (item,) = await app.scrape(pages, f"{origin.url}/1")
        assert await stored(app, run) == [item]
    assert origin.visits["/1"] == 1
