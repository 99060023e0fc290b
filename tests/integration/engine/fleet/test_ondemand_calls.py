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
from tests.integration.engine.shell import start, typed

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


async def test_a_url_is_called_like_a_task(local, pages, origin):
    origin.answer = lambda path: Answer(f"<title>{path}</title><a href=/next>next</a>")
    await local.listen(pages)
    scraped = await local.call(pages, f"{origin.url}/1")
    assert [item["title"] for item in scraped.items] == ["/1"]
    assert [task.url for task in scraped.follow] == [f"{origin.url}/next"]


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


async def test_a_dead_letter_is_an_error_of_the_call(local, pages, origin):
    origin.answer = lambda path: Answer(status=404)
    await local.listen(pages)
    with pytest.raises(TaskDied, match="404"):
        await local.scrape(pages, f"{origin.url}/gone")


async def test_a_page_that_fails_at_first_is_tried_again_within_the_call(local, pages, origin):
    origin.answer = lambda path: Answer(status=500 if origin.visits[path] == 1 else 200)
    await local.listen(pages)
    assert await local.scrape(pages, f"{origin.url}/1")
    assert origin.visits["/1"] == 2


async def test_a_page_that_kills_its_worker_runs_out_of_attempts(local, pages, origin):
    await local.listen(pages, workers=3)
    with pytest.raises(TaskDied, match="Worker"):
        await local.scrape(pages, f"{origin.url}/poison")
    assert origin.visits["/poison"] <= 3


async def test_a_call_that_names_no_step_is_of_the_first_one(local, pages, origin, bench):
    run = await local.listen(pages)
    await local.scrape(pages, f"{origin.url}/1")
    done = await typed("scrape", pages, f"{origin.url}/2", "--queue", bench.queue_url, folder=bench.folder)
    assert done.code == Exit.OK, done.err
    assert list((await local.queue.stats(run.id)).steps) == ["page"]
    assert len([item async for item in local.queue.items(run.id, step="page")]) == 2


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


async def test_what_cannot_be_called_is_refused_with_a_reason(local, pages, origin):
    with pytest.raises(NobodyListens, match="shoal listen"):
        await local.scrape(pages, f"{origin.url}/1")
    await local.listen(pages)
    with pytest.raises(InvalidTask, match="scheme"):
        await local.scrape(pages, "ftp:/nowhere")
    with pytest.raises(InvalidSetting, match="Did you mean 'random'"):
        await local.scrape(pages, origin.url, strategy="randon")


async def test_a_caller_with_another_secret_is_refused_and_learns_why(local, pages, origin, monkeypatch):
    await local.listen(pages)
    monkeypatch.setenv("SHOAL_SECRET", "quite another secret")
    with pytest.raises(NotAnswered, match="another secret"):
        await local.scrape(pages, f"{origin.url}/1", timeout=SECOND)
    assert not origin.visits


@pytest.mark.long
async def test_pages_are_scraped_from_the_command_line(bench, pages, origin):
    origin.answer = lambda path: Answer(f"<title>{path}</title><a href=/next>next</a>")
    given = {"folder": bench.folder, "SHOAL_QUEUE": bench.queue_url}
    nobody = await typed("scrape", pages, f"{origin.url}/1", "--json", **given)
    assert (nobody.code, nobody.row["error"]) == (Exit.UNAVAILABLE, "NobodyListens")
    listening = await start("listen", pages, "--workers", "2", "--at", "127.0.0.1:0", **given)
    try:
        async with asyncio.timeout(30):
            while (found := await typed("scrape", pages, f"{origin.url}/1", "--json", **given)).code:
                await asyncio.sleep(0.2)
        assert found.row["items"][0]["title"] == "/1"
        assert found.row["follow"] == [{"url": f"{origin.url}/next", "step": "page"}]
        plain = await typed("scrape", pages, f"{origin.url}/2", "--strategy", "random", **given)
        assert [row["title"] for row in plain.rows] == ["/2"]
        late = await typed("scrape", pages, f"{origin.url}/2", "--timeout", "soon", **given)
        assert late.code == Exit.USAGE and "--timeout" in late.err
    finally:
        listening.send_signal(signal.SIGTERM)
        _, said = await asyncio.wait_for(listening.communicate(), 20)
    assert listening.returncode == Exit.OK and "2 workers listening: http://127.0.0.1:" in said.decode()
    gone = await typed("scrape", pages, f"{origin.url}/3", "--json", **given)
    assert gone.row["error"] == "NobodyListens"


async def test_a_port_that_is_taken_is_named(bench, pages, origin):
    given = {"folder": bench.folder, "SHOAL_QUEUE": bench.queue_url}
    said = await typed("listen", pages, "--at", f"127.0.0.1:{origin.port}", **given)
    assert said.code == Exit.FAILED and f"--at cannot be used: 127.0.0.1:{origin.port}" in said.err
