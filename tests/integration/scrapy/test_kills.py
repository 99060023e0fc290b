"""A crawl whose processes are killed goes on where it was: nothing is lost, and no item is stored twice."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.scrapy.crawls import PROJECT, read_items

KILLS = 2
pytestmark = pytest.mark.timeout(400)


def alive(name):
    """Return the processes of a crawl, whoever their parents are now."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"RUN={name}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def kill_all(name):
    while pids := alive(name):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def kill_one(name, launcher):
    """Kill one process of a crawl other than its launcher, which replaces it."""
    others = [pid for pid in alive(name) if pid != launcher]
    with suppress(ProcessLookupError):
        os.kill(max(others), signal.SIGKILL)  # the one that was started last is a worker


def kill_often(crawls, command, again, *, cwd, name, spares_launcher=False):
    """Run a command, and kill all its processes after some pages, again and again."""
    pages = 0
    for number in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, *(again if number else command)],
            cwd=cwd,
            env=crawls.environment(name),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        pages += 9
        while crawls.site.count(name) < pages and process.poll() is None:
            time.sleep(0.01)
        assert process.poll() is None, "the crawl ended before it was killed"
        if spares_launcher:
            kill_one(name, process.pid)
            while crawls.site.count(name) < pages + 3 and process.poll() is None:
                time.sleep(0.01)
        kill_all(name)
        process.wait()


@pytest.mark.long
@pytest.mark.parametrize(
    ("spider", "store"),
    [
        ("remembers", "sqlite"),
        pytest.param("listing", "postgres_url", marks=pytest.mark.full),
        pytest.param("remembers", "redis_url", marks=pytest.mark.full),
        pytest.param("listing", "rabbitmq_url", marks=pytest.mark.full),
    ],
)
def test_a_run_that_is_killed_often_gives_the_items_of_plain_scrapy(crawls, tmp_path, request, spider, store):
    queue = f"sqlite:///{tmp_path}/q.db" if store == "sqlite" else request.getfixturevalue(store)
    expected, out, name = crawls.plain(spider), tmp_path / "items.jsonl", f"kill{spider}{store}"
    crawls.site.delay = 0.2
    command = ["-m", "shoal", "run", f"{PROJECT}:{spider}", "--queue", queue, "--workers", "2"]
    resume = [*command, "--resume", name]
    start = [*command, "--run", name, "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=2"]
    kill_often(crawls, start, resume, cwd=tmp_path, name=name, spares_launcher=True)

    def stored():
        export = ["-m", "shoal", "export", name, "--to", str(out), "--queue", queue, "--overwrite"]
        crawls.run(export, cwd=tmp_path)
        return read_items(out)

    assert stored() < expected  # what follows would not notice a crawl that was not interrupted
    crawls.run(resume, cwd=tmp_path, name=name)
    assert stored() == expected


@pytest.mark.long
def test_scrapy_crawl_that_is_killed_often_gives_the_items_of_plain_scrapy(crawls, tmp_path):
    queue, out = f"sqlite:///{tmp_path}/q.db", tmp_path / "items.jsonl"
    expected = crawls.plain("listing")
    crawls.site.delay = 0.1
    settings = ["-s", "SCHEDULER=shoal.scrapy.Scheduler", "-s", f"SHOAL_QUEUE={queue}"]
    command = ["-m", "scrapy", "crawl", "listing", *settings, "-O", f"{out}:jsonl"]
    kill_often(crawls, command, command, cwd=PROJECT, name="killcrawl")
    crawls.run(command, cwd=PROJECT, name="killcrawl")
    assert read_items(out) == expected


@pytest.mark.long
def test_a_feed_that_chooses_by_class_is_not_overwritten_when_feeds_are_written_again(crawls, tmp_path):
    files = [tmp_path / "all.jsonl", tmp_path / "books.jsonl"]
    feeds = {str(file): {"format": "jsonlines", "overwrite": True} for file in files}
    feeds[str(files[1])]["item_classes"] = ["bookbot.items.Book"]
    settings = ["SCHEDULER=shoal.scrapy.Scheduler", f"SHOAL_QUEUE=sqlite:///{tmp_path}/q.db", "SHOAL_RUN=r1"]
    options = [word for one in (*settings, f"FEEDS={json.dumps(feeds)}") for word in ("-s", one)]
    command = ["-m", "scrapy", "crawl", "listing", "-a", "limit=2", *options]
    crawls.run(command, cwd=PROJECT)
    written = [read_items(file) for file in files]
    assert written[0] > written[1]
    shown = crawls.run(command, cwd=PROJECT)
    assert [read_items(file) for file in files] == written
    assert "books.jsonl is left as it is" in shown


LAMBDAS = """
import os, scrapy

class Lambdas(scrapy.Spider):
    name = "lambdas"

    async def start(self):
        for number in range(20):
            yield scrapy.Request(f"{os.environ['SITE']}/book/{number}", headers={"X-Run": os.environ["RUN"]})

    def parse(self, response):
        link = response.urljoin(response.css("a.author::attr(href)").get())
        item = {"book": response.url.rpartition("/")[2]}
        yield scrapy.Request(link, lambda answer: [item], dont_filter=True)
"""


@pytest.mark.long
def test_workers_that_outlive_a_killed_launcher_end_and_lose_nothing_that_they_cannot_print(crawls, tmp_path):
    (tmp_path / "lambdas.py").write_text(LAMBDAS)
    command = ["-m", "shoal", "run", "lambdas.py", "--workers", "2", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=2"]
    crawls.site.delay = 0.2
    process = subprocess.Popen(
        [sys.executable, *command, "--run", "orphans"],
        cwd=tmp_path,
        env=crawls.environment("orphans"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while crawls.site.count("orphans") < 5 and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    end = time.monotonic() + 60
    while alive("orphans") and time.monotonic() < end:
        time.sleep(0.05)
    left = alive("orphans")
    kill_all("orphans")
    assert not left
    crawls.run([*command, "--resume", "orphans", "--out", "items.jsonl"], cwd=tmp_path)
    expected = {json.dumps({"book": str(number)}): 1 for number in range(20)}
    assert read_items(tmp_path / "items.jsonl") == expected
