"""Whole runs by Tor: every worker has its own, and nothing goes another way."""

import asyncio
import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from shoal.queue.open import open_queue
from tests.integration.engine.conftest import Bench
from tests.integration.engine.shell import typed

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]
PAGES = 60
SCRAPER = """
from shoal import Page, Scraper

shop = Scraper("shop", rate=None, retries=1)


@shop.step
async def page(page: Page):
    yield {"path": page.url.rpartition("/")[2], "exit": page.html}
"""


@pytest.fixture
def torrc(tor_network, tmp_path):
    """The network's file under a name of the test's own, by which its Tors are known."""
    return Path(shutil.copy(tor_network.torrc, tmp_path / "private.torrc"))


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path, f"sqlite:///{tmp_path}/queue.db")


def tors_of(torrc):
    """Return the process ids of the Tors that were started with a file."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(torrc).encode() in words and b"--verify-config" not in words:
            found.append(int(folder.name))
    return found


async def none_left(torrc):
    async with asyncio.timeout(10):
        while tors_of(torrc):
            await asyncio.sleep(0.02)


@pytest.mark.long
async def test_a_run_from_the_command_line_goes_by_tor_with_its_sitemap_and_robots_txt(
    tor_network, target, torrc, tmp_path
):
    (tmp_path / "shop.py").write_text(SCRAPER)
    pages = "".join(f"<url><loc>{target.url(f'/p{number}')}</loc></url>" for number in range(20))
    target.bodies["/sitemap.xml"] = f"<urlset>{pages}</urlset>"
    done = await typed(
        *("run", "shop.py", "--sitemap", target.url("/sitemap.xml"), "--workers", "2", "--json"),
        *("--tor", f"renew=5 torrc={torrc}", "--out", "items.jsonl"),
        folder=tmp_path,
    )
    assert done.code == 0, done.err
    assert (done.row["completed"], done.row["dead"]) == (20, 0)
    asked = Counter(visit.path for visit in target.visits)
    assert asked["/sitemap.xml"] == 1 and asked["/robots.txt"] >= 1 and asked["/p19"] == 1
    assert set(target.exits()) <= tor_network.exits
    await none_left(torrc)


async def test_a_worker_that_is_killed_leaves_no_tor_and_its_tasks_are_done_by_others(
    tor_network, target, torrc, bench
):
    killed, most = [], []

    def kill_one(snapshot, pool):
        most.append(len(tors_of(torrc)))
        if snapshot.stats.completed >= 5 and not killed and pool.pids:
            killed.append(pool.pids[0])
            os.kill(pool.pids[0], signal.SIGKILL)

    bench.witness.on_saw = kill_one
    code = SCRAPER.replace("rate=None", f"delay='100ms', tor={{'torrc': {str(torrc)!r}}}")
    summary = await bench.run(code, [target.url(f"/p{number}") for number in range(PAGES)], workers=2)
    paths = Counter(item["path"] for item in await bench.items(summary.run.id))
    assert killed and paths == Counter({f"p{number}": 1 for number in range(PAGES)})
    assert set(target.exits()) <= tor_network.exits
    assert max(most) >= 2  # one for each worker
    await none_left(torrc)


async def test_while_tor_is_not_up_tasks_wait_without_an_attempt_and_no_request_is_sent(
    lonely_torrc, target, bench
):
    def stop_later(snapshot, pool):
        if pool.tally.postponed.get("TorDown", 0) >= 10:
            pool.stop()

    bench.witness.on_saw = stop_later
    code = SCRAPER.replace("rate=None", f"rate=None, tor={{'torrc': {str(lonely_torrc)!r}}}")
    urls = [target.url(f"/p{number}", host="127.0.0.1") for number in range(10)]
    summary = await bench.run(code, urls, workers=1)
    assert summary.ending.tally.postponed["TorDown"] >= 10
    assert target.connections == 0
    async with open_queue(bench.queue_url) as queue:
        stats = await queue.stats(summary.run.id)
    assert (stats.remaining, stats.dead, stats.completed) == (10, 0, 0)
    await none_left(lonely_torrc)
