"""What callers on demand can rely on when hosts are slow, workers die, and others would like to call too."""

import asyncio
import os
import signal
from datetime import timedelta
from textwrap import dedent

import pytest

import shoal
from shoal.cli.exits import Exit
from shoal.core.errors import InvalidSetting, InvalidTask, NobodyListens, NotAnswered, TaskDied
from shoal.fleet.ondemand.balancer import Balancer
from shoal.worker.prefetch import CATCH_UP, TOLERANCE
from tests.integration.engine.calls import PAGES, first_holder, stored
from tests.integration.engine.origin import Answer
from tests.integration.engine.sends import BY_HOST, gaps_of, read_sends
from tests.integration.engine.shell import typed

SECOND = timedelta(seconds=1)


@pytest.fixture
async def local(bench):
    async with shoal.connect(bench.queue_url, folder=bench.folder) as app:
        yield app


@pytest.fixture
def pages(bench):
    return bench.write(PAGES)


async def test_calls_keep_the_gap_between_two_visits_of_a_host(local, bench, origin):
    pages = bench.write(BY_HOST + dedent(PAGES))
    await local.listen(pages, workers=2, settings={"rate": "2/s"})
    await asyncio.gather(*(local.scrape(pages, f"{origin.url}/{number}") for number in range(4)))
    (moments,) = read_sends(bench.folder).values()
    assert len(moments) == origin.visits.total() == 4
    assert min(gaps_of(moments)) > 0.5 * (1 - TOLERANCE - CATCH_UP)


async def test_a_call_is_for_a_task_of_the_first_step_is_tried_again_and_ends_with_items_or_an_error(
    local, pages, origin, bench
):
    def answer(path):
        is_failure = path == "/fails-once" and origin.visits[path] == 1
        status = 404 if path == "/gone" else 500 if is_failure else 200
        return Answer(f"<title>{path}</title><a href=/next>next</a>", status=status)

    origin.answer = answer
    with pytest.raises(NobodyListens, match="shoal listen"):
        await local.scrape(pages, f"{origin.url}/1")
    given = {"folder": bench.folder, "SHOAL_QUEUE": bench.queue_url}
    nobody = await typed("scrape", pages, f"{origin.url}/1", "--json", **given)
    assert (nobody.code, nobody.row["error"]) == (Exit.UNAVAILABLE, "NobodyListens")
    run = await local.listen(pages)
    scraped = await local.call(pages, f"{origin.url}/1")
    assert [item["title"] for item in scraped.items] == ["/1"]
    assert [task.url for task in scraped.follow] == [f"{origin.url}/next"]
    with pytest.raises(TaskDied, match="404"):
        await local.scrape(pages, f"{origin.url}/gone")
    assert await local.scrape(pages, f"{origin.url}/fails-once")
    assert origin.visits["/fails-once"] == 2
    done = await typed("scrape", pages, f"{origin.url}/2", "--json", "--strategy", "random", **given)
    assert done.code == Exit.OK, done.err
    assert done.row["items"][0]["title"] == "/2"
    assert done.row["follow"] == [{"url": f"{origin.url}/next", "step": "page"}]
    assert list((await local.queue.stats(run.id)).steps) == ["page"]
    assert len([item async for item in local.queue.items(run.id, step="page")]) == 3
    with pytest.raises(InvalidTask, match="scheme"):
        await local.scrape(pages, "ftp:/nowhere")
    with pytest.raises(InvalidSetting, match="Did you mean 'random'"):
        await local.scrape(pages, origin.url, strategy="randon")


async def test_a_call_whose_host_must_rest_says_for_how_long_and_sends_no_request(local, pages, origin):
    run = await local.listen(pages, settings={"rate": "1/m"})
    await local.scrape(pages, f"{origin.url}/1")
    with pytest.raises(NotAnswered, match="rate limit allows the next request in") as caught:
        await local.scrape(pages, f"{origin.url}/2", timeout="1s")
    assert timedelta(seconds=50) < caught.value.busy_for <= timedelta(seconds=60)
    assert origin.visits == {"/1": 1}
    async with asyncio.timeout(5):  # nobody waits for it, so nobody will begin it
        while not (await local.queue.stats(run.id)).expired:
            await local.queue.reclaim()


async def test_a_page_that_kills_its_worker_runs_out_of_attempts(local, pages, origin):
    await local.listen(pages, workers=3)
    with pytest.raises(TaskDied, match="Worker"):
        await local.scrape(pages, f"{origin.url}/poison")
    assert origin.visits["/poison"] <= 3


@pytest.mark.long
async def test_a_frozen_worker_is_given_up_and_what_it_says_later_is_refused(local, pages, origin, bench):
    origin.answer = lambda path: Answer(f"<title>{path}</title>")
    run = await local.listen(pages, workers=2)
    async with Balancer(local.queue, "pages", health_interval=SECOND / 10) as balancer:
        calling = asyncio.create_task(balancer.scrape(f"{origin.url}/long"))
        holder = await first_holder(bench.folder)
        os.kill(holder, signal.SIGSTOP)
        try:
            (item,) = await calling
        finally:
            os.kill(holder, signal.SIGCONT)
        assert item["pid"] != holder
        # Outcomes go in order: when it has settled another, it has settled this one.
        async with asyncio.timeout(10):
            while (await balancer.scrape(f"{origin.url}/other"))[0]["pid"] != holder:
                pass
    assert [one for one in await stored(local, run) if one["title"] == "/long"] == [item]


async def test_calls_go_round_and_only_to_those_who_are_well(local, pages, origin):
    await local.listen(pages, workers=3)
    async with Balancer(local.queue, "pages", strategy="round_robin") as balancer:
        pids = [(await balancer.scrape(f"{origin.url}/{number}"))[0]["pid"] for number in range(6)]
        assert len(set(pids)) == 3 and pids[:3] == pids[3:]
        os.kill(pids[0], signal.SIGKILL)
        after = [(await balancer.scrape(f"{origin.url}/after{number}"))[0]["pid"] for number in range(6)]
        assert pids[0] not in after


async def test_a_caller_with_another_secret_is_refused_and_learns_why(local, pages, origin, monkeypatch):
    await local.listen(pages)
    monkeypatch.setenv("SHOAL_SECRET", "quite another secret")
    with pytest.raises(NotAnswered, match="another secret"):
        await local.scrape(pages, f"{origin.url}/1", timeout=SECOND)
    assert not origin.visits


async def test_a_port_that_is_taken_is_named(bench, pages, origin):
    given = {"folder": bench.folder, "SHOAL_QUEUE": bench.queue_url}
    said = await typed("listen", pages, "--at", f"127.0.0.1:{origin.port}", **given)
    assert said.code == Exit.FAILED and f"--at cannot be used: 127.0.0.1:{origin.port}" in said.err
