"""Workers of the released wheel and of this tree share a run: a fleet changes its version while it works.

The wheel beside this file is the newest release. A change of a store that its workers cannot bear fails here;
the next release replaces the wheel.
"""

import asyncio
import os
import random
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from zipfile import ZipFile

import pytest

from shoal.core.model import Task
from shoal.queue.open import open_queue
from tests.cases import long
from tests.integration.engine.origin import Answer, Origin
from tests.integration.engine.shell import start, typed

WHEEL = next(Path(__file__).parent.glob("shoal-*.whl"))
SOURCE = Path(__file__).parents[3] / "src"
KILLS = int(os.environ.get("SHOAL_UPGRADE_KILLS", "4"))
BETWEEN_KILLS = (0.3, 1.5)  # seconds after the new worker has done its first page
WAITING = 200  # pages at any time
SCRAPER = """
import shoal
from shoal import Page, Scraper

pages = Scraper("pages", rate=None, robots=False, per_host=100, retries=20, lease="3s", timeout="2s")

@pages.step
async def listing(page: Page):
    yield {"url": page.url, "by": shoal.__file__}
    yield page.follow(page.url + "/more", step=more)

@pages.step
async def more(page: Page):
    yield {"url": page.url, "by": shoal.__file__}
"""


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """The environment in which Python imports the released Shoal."""
    folder = tmp_path_factory.mktemp("released")
    ZipFile(WHEEL).extractall(folder)
    return {"PYTHONPATH": str(folder)}


@pytest.fixture(params=["sqlite", "postgres", "redis", "rabbitmq"])
def queue_url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/queue.db"
    return request.getfixturevalue(f"{request.param}_url")


class Fleet:
    """Two processes of workers on a run, each of one version."""

    def __init__(self, folder, queue, queue_url, run_id):
        self.folder, self.queue, self.run_id = folder, queue, run_id
        self.processes, self.at_work = [None, None], set()
        self.words = (
            "work",
            "pages.py",
            "--run",
            run_id,
            "--queue",
            queue_url,
            "--allow-private",
            "127.0.0.1",
        )

    async def deploy(self, place, environment):
        """Kill the process at a place, start one of a version there, and wait until it has done a page."""
        self.kill(place)
        self.processes[place] = await start(
            *self.words, "--concurrency", 4, folder=self.folder, **environment
        )
        asyncio.get_running_loop().create_task(self.processes[place].communicate())
        async with asyncio.timeout(30):
            while not (new := await self._workers() - self.at_work):
                await asyncio.sleep(0.05)
        self.at_work |= new

    async def _workers(self):
        return {one.worker_id for one in await self.queue.workers(self.run_id) if one.completed}

    def kill(self, place):
        if self.processes[place] is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.processes[place].pid, signal.SIGKILL)


@pytest.mark.parametrize("direction", [*long("upgrade"), pytest.param("rollback", marks=pytest.mark.full)])
@pytest.mark.timeout(240)
async def test_each_page_is_done_once_while_a_fleet_changes_its_version(
    queue_url, direction, released, tmp_path
):
    before, after = (released, {}) if direction == "upgrade" else ({}, released)
    (tmp_path / "pages.py").write_text(SCRAPER)
    async with Origin(lambda path: Answer(after=0.05)) as origin:
        words = ("enqueue", "pages.py", "--url", f"{origin.url}/0", "--json", "--queue", queue_url)
        made = await typed(*words, folder=tmp_path, **before)
        async with open_queue(queue_url) as queue:
            run_id, fed, dice = made.row["run_id"], 1, random.Random(7)
            fleet = Fleet(tmp_path, queue, queue_url, run_id)
            try:
                for number in range(KILLS + 2):
                    # At first both processes are of one version, then one of each, then both of the other.
                    third = number * 3 // (KILLS + 2)
                    missing = WAITING - (await queue.stats(run_id)).pending
                    more = [Task(url=f"{origin.url}/{fed + n}", step="listing") for n in range(missing)]
                    fed += len(more)
                    await queue.enqueue(run_id, more)
                    await fleet.deploy(number % 2, after if third + number % 2 > 1 else before)
                    await asyncio.sleep(dice.uniform(*BETWEEN_KILLS))
                async with asyncio.timeout(60):
                    while (await queue.stats(run_id)).remaining:
                        await asyncio.sleep(0.2)
            finally:
                fleet.kill(0)
                fleet.kill(1)
            stats = await queue.stats(run_id)
            items = [item.data async for item in queue.items(run_id)]
    urls = [f"{origin.url}/{n}{more}" for n in range(fed) for more in ("", "/more")]
    assert Counter(item["url"] for item in items) == Counter(urls)
    assert (stats.completed, stats.dead) == (len(urls), 0)
    by = Counter(item["by"].startswith(released["PYTHONPATH"]) for item in items)
    assert min(by[True], by[False]) > len(urls) / 50, by


def test_a_released_migration_is_never_changed():
    with ZipFile(WHEEL) as wheel:
        released = [name for name in wheel.namelist() if "/migrations/" in name]
        changed = [name for name in released if wheel.read(name) != (SOURCE / name).read_bytes()]
    assert len(released) >= 2 and not changed
