"""Proxy statistics of the fleet, and whether proxies can be reached."""

import asyncio

import pytest

from shoal.core.errors import UnknownRun
from shoal.core.model import Task
from shoal.core.proxies import ProxyRules, read_proxy_list
from shoal.fetch.proxies.health import ProxyFault
from shoal.fetch.proxies.pool import ProxyPool
from shoal.fetch.proxies.sync import ProxySync
from shoal.fleet.status.doctor import CheckStatus, examine
from shoal.fleet.status.proxies import check_proxies, proxies
from shoal.scrape.scraper import Scraper

HOST = "shop.test"


def worker(queue, run, name, lines, **rules):
    pool = ProxyPool(ProxyRules(threshold=2, **rules), read_proxy_list(lines, what="entry", salt=b"x"))
    return pool, ProxySync(queue, run.id, name, pool)


async def test_what_all_workers_have_done_is_added_up(queue):
    run = await queue.start_run("shop")
    lines = ["a.test:1", "b.test:2", "me:s3cret@c.test:3", "d.test:4"]
    for name in ("w1", "w2"):
        pool, board = worker(queue, run, name, lines)
        good, dead, blocked, _ = pool.records()
        pool.record_page(good, HOST, 0.5 if name == "w1" else 1.5)
        pool.record_failure(dead, ProxyFault.DEAD)
        pool.record_block(blocked, HOST)
        await board.exchange()
    found = {status.name.partition("#")[0]: status for status in await proxies(queue, run.id)}
    assert [found[f"http://{name}"].state for name in ("a.test:1", "b.test:2", "c.test:3", "d.test:4")] == [
        *("good", "benched", "blocked", "untried")
    ]
    good, dead = found["http://a.test:1"], found["http://b.test:2"]
    assert (good.pages, good.seconds) == (2, 1.0)
    assert (dead.faults, dead.benched.fault, dead.back_in > 3500) == ({"dead": 2}, "dead", True)
    told = found["http://c.test:3"].row()
    assert told.blocked == 2 and told.blocked_by == [HOST]
    assert "s3cret" not in str([status.row() for status in found.values()])


async def test_a_run_without_proxies_has_none_and_an_unknown_run_is_an_error(queue):
    run = await queue.start_run("shop")
    await queue.enqueue(run.id, [Task(url="https://shop.test/")])
    assert await proxies(queue, run.id) == []
    with pytest.raises(UnknownRun):
        await proxies(queue, "nope")


@pytest.fixture
async def listening():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    yield f"http://me:s3cret@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def test_the_doctor_knows_which_proxies_are_reachable(listening, tmp_path):
    silent = "http://me:s3cret@127.0.0.1:1"
    for lines, health, says in (
        ([listening], CheckStatus.GOOD, "all 1 can be reached"),
        ([listening, silent], CheckStatus.POOR, "1 of 2 cannot be reached: http://127.0.0.1:1"),
        ([silent], CheckStatus.BAD, "1 of 1 cannot be reached: http://127.0.0.1:1"),
    ):
        scraper = Scraper("shop", proxies=lines)
        scraper.step(lambda page: None, name="page")
        found = [one async for one in examine(f"sqlite:///{tmp_path}/q.db", scraper) if one.what == "proxies"]
        assert [(one.health, one.says) for one in found] == [(health, says)]


async def test_proxies_that_cannot_be_read_are_bad():
    usable, whole, says = await check_proxies(ProxyRules(provider=list))
    assert (usable, whole) == (False, False) and "has no proxy" in says


async def test_it_is_shown_which_worker_has_which_proxies_and_how_many_requests_succeed(queue):
    run = await queue.start_run("shop")
    lines = ["a.test:1", "b.test:2"]
    made = [worker(queue, run, f"w{number} site.test", lines, share="slice") for number in (1, 2)]
    for number in (1, 2):
        await queue.beat(f"w{number}", run_id=run.id)
    first = next(iter(made[0][0].records()))
    first.record_page(0.1, 0.0)
    first.record_fault(ProxyFault.SLOW)
    for _ in range(2):  # each knows of the other in the second exchange
        for _, board in made:
            await board.exchange()
            await board.publish_stats(now=True)
    rows = [status.row() for status in await proxies(queue, run.id)]
    assert [(row.workers, row.success) for row in rows] == [(["w1"], 0.5), (["w2"], None)]
