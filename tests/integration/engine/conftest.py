import itertools
import os
import textwrap
import time
from dataclasses import dataclass, field

import pytest

from shoal.cli.options.workers import read_job
from shoal.core.model import Task
from shoal.fetch.http.client import RedirectingClient
from shoal.fetch.proxies.pool import PerExitRate
from shoal.fleet.run.launch import launch
from shoal.fleet.run.open_run import StartOptions, open_run
from shoal.fleet.run.pool import RunObserver
from shoal.fleet.sources.seeds import Seeds
from shoal.queue.open import open_queue
from shoal.queue.sqlite.queue import SqliteQueue
from shoal.worker.page_limit import PageLimit
from shoal.worker.prefetch import PrefetchBuffer
from shoal.worker.settlements import Settlements
from tests.cases import long
from tests.integration.engine.origin import Origin

_seconds = itertools.count()


@dataclass
class Witness(RunObserver):
    """Hears what a run tells, and may act on it."""

    shows_progress = True

    pool: object = None
    said_lines: list = field(default_factory=list)
    printed_lines: list = field(default_factory=list)
    snapshots: list = field(default_factory=list)
    on_saw: object = None

    def on_start(self, run, pool):
        self.pool = pool

    def on_progress(self, snapshot, pool):
        self.snapshots.append(snapshot)
        if self.on_saw:
            self.on_saw(snapshot, pool)

    def on_message(self, text):
        self.said_lines.append(text)

    def on_output(self, line):
        self.printed_lines.append(line)

    def on_warning(self, warned):
        self.printed_lines += warned.message.split("\n")


class Bench:
    """Runs scrapers that a test writes down, with real workers on a real queue."""

    def __init__(self, folder, queue_url):
        self.folder, self.queue_url = folder, queue_url
        self.witness = Witness()

    def write(self, code):
        """Write a scraper's file and return its path."""
        file = self.folder / "scraper.py"
        file.write_text("from shoal import Page, Scraper, Task\n" + textwrap.dedent(code))
        # Python takes a file of the same size and second for the one that it has compiled.
        moment = time.time() - 3600 + next(_seconds)
        os.utime(file, (moment, moment))
        return str(file)

    async def run(self, code, urls, *, run_id=None, resume=False, **options):
        """Run a scraper from URLs, or the tasks given, until it ends; return the summary."""
        job = read_job(self.write(code), queue=self.queue_url, allow_private=["127.0.0.0/8"], **options)
        step = job.scraper.first.name
        seeds = [url if isinstance(url, Task) else Task(url=url, step=step) for url in urls]
        async with open_queue(self.queue_url) as queue:
            options = StartOptions(run_id=run_id, resume=resume, adds=True, keeps_empty=True)
            async with open_run(queue, job, Seeds(given=[("tasks", seeds)]), options) as opened:
                return await launch(opened, self.witness)

    async def items(self, run_id):
        async with open_queue(self.queue_url) as queue:
            return [item.data async for item in queue.items(run_id)]

    async def dead(self, run_id):
        async with open_queue(self.queue_url) as queue:
            return [letter async for letter in queue.dead(run_id)]


# What scrapers of tests replace to see or disturb a worker. Their files are loaded in this process, too.
REPLACED = [
    (PageLimit, "_acquire"),
    (PerExitRate, "record_request"),
    (PrefetchBuffer, "try_start"),
    (RedirectingClient, "fetch"),
    (Settlements, "put"),
    (SqliteQueue, "claim"),
]


@pytest.fixture(autouse=True)
def replaced_by_no_other_test(monkeypatch):
    for owner, name in REPLACED:
        monkeypatch.setattr(owner, name, getattr(owner, name))


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path, f"sqlite:///{tmp_path}/queue.db")


@pytest.fixture(params=["postgres", *long("sqlite", "redis", "rabbitmq")])
def any_bench(request, tmp_path):
    """A bench on each backend in turn."""
    if request.param == "sqlite":
        return Bench(tmp_path, f"sqlite:///{tmp_path}/queue.db")
    return Bench(tmp_path, request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
async def origin():
    async with Origin() as site:
        yield site
