"""A fleet behind real proxies: bad ones are benched for all, no task is lost, good ones share the work."""

import asyncio
import os
import time
from contextlib import AsyncExitStack
from itertools import cycle, islice

import pytest

from shoal.fleet.sources.kinds import open_sources
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.proxies import proxies as known_proxies
from shoal.queue.open import open_queue
from shoal.scrape.scraper import Scraper
from tests.conftest import or_skip
from tests.integration.engine.origin import Answer, Origin
from tests.integration.engine.sends import BY_EXIT, gaps_of, read_sends
from tests.integration.engine.shell import typed
from tests.integration.fetch.false_proxy import FalseProxy
from tests.servers.process import free_port
from tests.servers.proxies import MicroSocks, SlowLine, TinyProxy

PAGES = int(os.environ.get("SHOAL_PAGES", "3600"))
# Below the number of workers: each leaves a proxy alone for a while after one request has timed out, and
# one or two workers may get too few tasks to meet every proxy.
THRESHOLD, WORKERS = 6, 10
ROUNDS = 3  # of a measurement at most, for the machine may have other things to do at times
NEVER = 1_000_000  # failures: nothing is ever benched
LOGIN = ("visitor", "s3cret-pa55")
SCRAPER = """
shop = Scraper("shop", robots=False, retries=2, **{settings!r})

@shop.step
async def page(page: Page):
    {before}
    yield {{"url": page.url}}
"""
# For the top of a scraper: on a busy machine one worker may start when the other has done its part too.
TWO_WORKERS = """
import asyncio, os
from pathlib import Path

async def two_workers():
    folder = Path(__file__).parent
    if not (own := folder / f"worker-{os.getpid()}").exists():
        own.touch()
    while len(list(folder.glob("worker-*"))) < 2:
        await asyncio.sleep(0.02)
"""


def scraper(rack, *, rate=None, per_host=1_000, before="pass", **rules):
    proxies = {"from": str(rack.file), "threshold": THRESHOLD, "timeout": "3s", **rules}
    return SCRAPER.format(settings={"rate": rate, "per_host": per_host, "proxies": proxies}, before=before)


class Rack:
    """Proxies of four kinds, and a file that names them."""

    def __init__(self, folder, stack):
        self.file, self._stack = folder / "proxies.txt", stack
        self.good, self.dead, self.slow, self.refusing = [], [], [], []

    def start(self, *proxies):
        """Start proxies that end with the test."""
        begun = [self._stack.push(proxy.begin()) for proxy in proxies]
        return [proxy.wait() for proxy in begun]

    def add_good(self, count):
        kinds = [(TinyProxy, None), (MicroSocks, None), (TinyProxy, LOGIN), (MicroSocks, LOGIN)]
        made = or_skip(lambda: [kind(login) for kind, login in islice(cycle(kinds), count)])
        self.good += self.start(*made)

    def add_refusing(self, count):
        self.refusing += self.start(*(TinyProxy(refuses=True) for _ in range(count)))

    async def add_slow(self, count):
        for number in range(count):
            line = SlowLine(self.good[number], seconds=60)
            self.slow.append(await self._stack.enter_async_context(line))

    def add_dead(self, count):
        self.dead += [f"http://127.0.0.1:{free_port()}" for _ in range(count)]

    def write(self):
        lines = [proxy.url for proxy in (*self.good, *self.slow, *self.refusing)] + self.dead
        self.file.write_text(
            "\n".join(["# a comment, and one that is written twice", *sorted(lines), lines[0]])
        )
        return self

    def bad(self):
        return {*self.dead, *(proxy.shown for proxy in (*self.slow, *self.refusing))}


@pytest.fixture
async def rack(tmp_path):
    async with AsyncExitStack() as stack:
        yield Rack(tmp_path, stack)


async def statuses(bench, run_id):
    async with open_queue(bench.queue_url) as queue:
        return {status.name.partition("#")[0]: status for status in await known_proxies(queue, run_id)}


def urls(origin, count):
    return [f"{origin.url}/{number}" for number in range(count)]


def assert_all_came(summary, count):
    stats = summary.snapshot.stats
    assert (stats.completed, stats.dead, stats.remaining) == (count, 0, 0)


def failures_of(status):
    return sum(status.faults.values())


@pytest.mark.long
async def test_fifty_proxies_of_which_twenty_are_bad_serve_ten_workers(bench, rack, origin):
    rack.add_good(30)
    await rack.add_slow(5)
    rack.add_refusing(5)
    rack.add_dead(10)
    # At this pace the run is long enough for enough requests to time out by each of the slow ones.
    code = scraper(rack.write(), rate="200/s")
    summary = await bench.run(code, urls(origin, PAGES), workers=WORKERS)
    assert_all_came(summary, PAGES)
    found = await statuses(bench, summary.run.id)
    assert len(found) == 50
    for name in rack.bad():
        status = found[name]
        assert status.state in ("benched", "blocked"), (name, status)
        # Each worker may have had one request in hand when the last failure was told.
        assert THRESHOLD <= failures_of(status) < THRESHOLD + WORKERS, (name, status)
    pages = sorted(found[proxy.shown].pages for proxy in rack.good)
    mean = PAGES / len(pages)
    worst = max(failures_of(found[name]) for name in rack.bad())
    print(f"\n{pages[0]} to {pages[-1]} pages by each; at most {worst} failures; {summary.seconds:.1f} s")
    assert sum(pages) == PAGES
    assert mean * 0.95 <= pages[0] and pages[-1] <= mean * 1.05, pages


@pytest.mark.long
async def test_a_benched_proxy_returns_after_its_time(bench, rack, origin):
    rack.add_good(2)
    rack.add_dead(1)
    back = MicroSocks()
    back.port = int(rack.dead[0].rpartition(":")[2])
    rack.dead = [back.shown]
    benched_at = []

    def revive(snapshot, pool):
        if snapshot.stats.completed > 200 and not benched_at:
            benched_at.append(time.monotonic())
            rack.start(back)

    bench.witness.on_saw = revive
    code = scraper(rack.write(), rate="150/s", duration="2s")
    summary = await bench.run(code, urls(origin, 750), workers=2)
    assert_all_came(summary, 750)
    status = (await statuses(bench, summary.run.id))[back.shown]
    assert status.state == "good" and status.pages > 20
    assert THRESHOLD <= failures_of(status) < THRESHOLD + 6


@pytest.mark.long
async def test_the_fleet_shares_what_it_knows(bench, rack, origin):
    rack.add_good(2)
    rack.add_refusing(1)
    rack.add_dead(1)
    code = scraper(rack.write(), threshold=3, rate="200/s")
    summary = await bench.run(code, urls(origin, 150), workers=2)
    assert_all_came(summary, 150)
    found = await statuses(bench, summary.run.id)
    assert {name: found[name].state for name in rack.bad()} == {
        rack.dead[0]: "benched",
        rack.refusing[0].shown: "blocked",
    }
    assert all(3 <= failures_of(found[name]) < 5 for name in rack.bad())
    assert sum(found[proxy.shown].pages for proxy in rack.good) == 150
    where = {"folder": bench.folder, "SHOAL_QUEUE": bench.queue_url}
    told, table = await asyncio.gather(
        typed("proxies", summary.run.id, "--json", **where), typed("proxies", **where)
    )
    assert {row["proxy"].partition("#")[0]: row["state"] for row in told.rows} == {
        name: status.state for name, status in found.items()
    }
    assert "benched" in table.out and "1 proxy benched." in table.err
    assert not any(LOGIN[1] in text for text in (told.out, told.err, table.out, table.err))


async def test_with_no_proxy_left_the_fleet_waits_and_says_so_and_sends_nothing_directly(bench, rack, origin):
    rack.add_dead(3)

    def stop(snapshot, pool):
        if any("No proxy is left" in line for line in bench.witness.printed_lines):
            pool.stop()
            pool.stop()

    bench.witness.on_saw = stop
    summary = await bench.run(scraper(rack.write(), threshold=2), urls(origin, 50), workers=2)
    stats = summary.snapshot.stats
    assert (stats.remaining, stats.completed, stats.dead) == (50, 0, 0)
    assert origin.visits.total() == 0
    bench.witness.on_saw = None
    rack.add_good(1)
    rack.write()
    code = scraper(rack, direct=False, duration="1s")
    again = await bench.run(code, [], run_id=summary.run.id, resume=True, workers=2)
    assert_all_came(again, 50)


async def test_sitemaps_come_by_proxies_too_or_not_at_all(rack, origin):
    origin.answer = lambda path: Answer(
        f"<urlset><url><loc>{origin.url}/1</loc></url></urlset>", headers={"Content-Type": "text/xml"}
    )
    rack.add_dead(1)
    rack.write()
    settings = {"proxies": {"from": str(rack.file)}, "rate": None, "allow_private": "127.0.0.0/8"}
    shop, seeds = Scraper("shop", **settings), Seeds(sitemaps=[f"{origin.url}/sitemap.xml"])
    async with open_sources(seeds, shop, "page") as (walk,):
        assert [found async for found in walk] == []
    assert origin.visits.total() == 0
    rack.add_good(1)
    rack.write()
    async with open_sources(seeds, shop, "page") as (walk,):
        assert [found.url async for found in walk] == [f"{origin.url}/1"]
    assert rack.good[0].visits()


@pytest.mark.long
async def test_a_hosts_gap_may_be_kept_for_each_exit_by_itself(bench, rack, origin):
    rack.good = rack.start(*or_skip(lambda: [TinyProxy() for _ in range(6)]))
    rules = {"rate": "2/s", "per_host": 4, "per_exit": True, "before": "await two_workers()"}
    code = BY_EXIT + TWO_WORKERS + scraper(rack.write(), **rules)
    # Few at a time, so that neither worker has all of them in its hands.
    summary = await bench.run(code, urls(origin, 30), workers=2, concurrency=3, batch=3)
    assert_all_came(summary, 30)
    sends = read_sends(bench.folder)
    for proxy in rack.good:
        assert len(sends[proxy.shown]) == len(proxy.visits()) > 1
        assert min(gaps_of(sends[proxy.shown])) > 0.499
    both_since = max(file.stat().st_mtime for file in bench.folder.glob("worker-*"))
    begun = both_since - time.time() + time.monotonic()
    moments = [at for at, _ in origin.moments if at > begun]
    assert moments[-1] - begun < len(moments) * 0.5 / 2  # by one exit it would take twice as long at least


@pytest.mark.full
async def test_fifty_proxies_are_nearly_as_fast_as_none(bench, rack):
    """At a host that takes its time, as hosts do: fifty proxies and the host share this processor."""
    rack.add_good(50)
    rack.write()
    best = {}
    async with Origin(lambda path: Answer(after=0.05)) as origin:
        for proxies in ROUNDS * [None, str(rack.file)]:
            settings = {"rate": None, "per_host": 25, "proxies": proxies}
            origin.moments.clear()
            await bench.run(SCRAPER.format(settings=settings, before="pass"), urls(origin, 800), workers=2)
            rate = len(origin.moments) / (origin.moments[-1][0] - origin.moments[0][0])
            best[proxies] = max(rate, best.get(proxies, 0.0))
            if proxies and rate >= 0.8 * best[None]:
                break
    none, fifty = best.values()
    print(f"\n{none:.0f} pages/s by none, {fifty:.0f} by fifty: {fifty / none:.2f} times as fast")
    assert fifty >= 0.8 * none


async def test_a_page_at_most_once_is_requested_once_through_proxies_that_forward_and_then_close(bench):
    async with FalseProxy(b"") as first, FalseProxy(b"") as second:
        summary = await bench.run(
            f"""
            proxies = ["http://127.0.0.1:{first.port}", "http://127.0.0.1:{second.port}"]
            once = Scraper("once", rate=None, robots=False, delivery="at_most_once", proxies=proxies)

            @once.step
            async def page(page: Page): ...
            """,
            [f"http://shop.test/{number}" for number in range(4)],
        )
        requested = first.heard.count(b"GET ") + second.heard.count(b"GET ")
    assert summary.snapshot.stats.dead == requested == 4
