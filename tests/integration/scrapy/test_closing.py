"""How a spider ends: by its own code, by a signal, when it is idle, and when its run has ended elsewhere."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
import scrapy

from shoal.core.model import Done
from shoal.queue.open import open_queue
from tests.integration.scrapy.crawls import read_items

SPIDERS = '''
import asyncio, os, scrapy
from scrapy import signals
from scrapy.exceptions import CloseSpider, DontCloseSpider

SITE = os.environ["SITE"]

def pages(numbers, **kwargs):
    return [scrapy.Request(f"{SITE}/name/{number}", **kwargs) for number in numbers]

class Base(scrapy.Spider):
    async def start(self):
        for request in pages(range(20)):
            yield request

    def parse(self, response):
        yield response.json()

    def closed(self, reason):
        print("closed for", reason, flush=True)

class Closes(Base):
    """Closes itself, while other requests wait and are in flight."""
    name = "closes"
    custom_settings = {"CONCURRENT_REQUESTS": 2, "CONCURRENT_REQUESTS_PER_DOMAIN": 6}

    def parse(self, response):
        yield response.json()
        raise CloseSpider("finished")

class Early(Base):
    """Closes itself in `start()`."""
    name = "early"

    async def start(self):
        yield {"name": "of start"}
        for request in pages(range(3)):
            yield request
        raise CloseSpider("enough")

class Idle(Base):
    """Adds requests when it is idle, twice, and waits once."""
    name = "idle"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.on_idle, signals.spider_idle)
        spider.calls = 0
        return spider

    async def start(self):
        for request in pages([0]):
            yield request

    def on_idle(self):
        self.calls += 1
        print("idle", self.calls, flush=True)
        if self.calls <= 2:
            for request in pages([self.calls]):
                self.crawler.engine.crawl(request)
        elif self.calls == 3:
            raise DontCloseSpider

class Waits(Base):
    """Has a `start()` that waits long after some requests."""
    name = "waits"

    async def start(self):
        print("started", flush=True)
        for request in pages(range(4)):
            yield request
        await asyncio.sleep(600)

class Slow(Base):
    """Has a `start()` that takes some seconds."""
    name = "slow"

    async def start(self):
        for request in pages(range(20)):
            yield request
            print("started", flush=True)
            await asyncio.sleep(0.1)
'''


@pytest.fixture
def spiders(tmp_path):
    file = tmp_path / "spiders.py"
    file.write_text(SPIDERS)
    return file


def run_json(crawls, tmp_path, reference, *options, code):
    """Return the last line of a run as JSON, and all that it printed."""
    command = ["-m", "shoal", "run", reference, "--queue", f"sqlite:///{tmp_path}/q.db", "--json", *options]
    shown = crawls.run(command, cwd=tmp_path, code=code)
    return json.loads(shown.splitlines()[-1]), shown


async def attempts_of(queue_url, run_id):
    """Return the attempts of the tasks that a run has left, each of which is claimed now."""
    async with open_queue(queue_url) as queue:
        await queue.resume(run_id)
        attempts = []
        while (await queue.stats(run_id)).remaining:
            leases = (await queue.claim("test", run_id=run_id)).leases
            attempts += [lease.attempt for lease in leases]
            await queue.settle([Done(lease) for lease in leases])
            await asyncio.sleep(0.05)  # until released tasks are due
        return attempts


@pytest.mark.long
def test_a_spider_that_closes_itself_ends_the_run_whatever_its_reason(crawls, spiders, tmp_path):
    end, shown = run_json(crawls, tmp_path, f"{spiders}:closes", "--workers", "2", code=6)
    assert (end["state"], end["reason"]) == ("partial", "CloseSpider: finished")
    assert shown.count("closed for finished") == 2  # also in the worker that was told
    # What waited and what was in flight is charged no attempt.
    assert set(asyncio.run(attempts_of(f"sqlite:///{tmp_path}/q.db", end["run_id"]))) == {1}
    assert end["dead"] == 0


@pytest.mark.long
@pytest.mark.skipif(scrapy.version_info < (2, 18), reason="for older versions it is an error of start()")
def test_a_spider_that_closes_itself_in_its_start_keeps_what_it_has_yielded(crawls, spiders, tmp_path):
    end, shown = run_json(crawls, tmp_path, f"{spiders}:early", code=6)
    assert (end["state"], end["reason"]) == ("partial", "CloseSpider: enough")
    assert "closed for enough" in shown
    assert "start() failed" not in shown


@pytest.mark.long
def test_requests_that_are_added_when_a_spider_is_idle_are_crawled(crawls, spiders, tmp_path):
    end, shown = run_json(crawls, tmp_path, f"{spiders}:idle", code=0)
    assert end["items"] == 3
    assert re.findall(r"idle \d", shown) == [f"idle {number}" for number in range(1, 5)]


def crawl_alone(spiders, tmp_path, name):
    """Keep one spider of the file, and return the arguments that crawl it with Scrapy's command."""
    base = SPIDERS.partition("\nclass Closes")[0]
    one = re.search(rf"class {name}\(.*?(?=\nclass |\Z)", SPIDERS, re.S)
    spiders.write_text(f"{base}\n    name = 'base'\n\n{one[0]}")
    settings = ["-s", "SCHEDULER=shoal.scrapy.Scheduler", "-s", f"SHOAL_QUEUE=sqlite:///{tmp_path}/q.db"]
    return ["-m", "scrapy", "runspider", str(spiders), *settings, "-O", f"{tmp_path}/out.jsonl:jsonl"]


@contextmanager
def started(crawls, command, folder):
    """Start a crawl, and yield its process when its spider has printed a line."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env=crawls.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout.readline() == "started\n"
    yield process
    assert process.wait(60) == 0
    process.stdout.close()


@pytest.mark.long
def test_a_crawl_whose_run_is_cancelled_does_not_wait_for_its_start(crawls, spiders, tmp_path):
    with started(crawls, crawl_alone(spiders, tmp_path, "Waits"), tmp_path) as process:
        cancel = ["-m", "shoal", "cancel", "newest", "--queue", f"sqlite:///{tmp_path}/q.db"]
        crawls.run(cancel, cwd=tmp_path)
        assert process.stdout.readline() == "closed for cancelled\n"


@pytest.mark.long
def test_start_goes_on_after_ctrl_c(crawls, spiders, tmp_path):
    command = crawl_alone(spiders, tmp_path, "Slow")
    with started(crawls, command, tmp_path) as process:
        os.kill(process.pid, signal.SIGINT)
    crawls.run(command, cwd=tmp_path)
    assert len(read_items(tmp_path / "out.jsonl")) == 20


@pytest.mark.long
def test_a_crawl_whose_queue_cannot_be_opened_says_only_why(crawls, spiders, tmp_path):
    command = crawl_alone(spiders, tmp_path, "Slow")
    shown = crawls.run([*command, "-s", "SHOAL_QUEUE=sqlitee:///q.db"], cwd=tmp_path, code=1)
    assert "No queue is called 'sqlitee'. Did you mean 'sqlite'?" in shown
    assert "AttributeError" not in shown
