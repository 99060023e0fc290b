"""A pytest plugin that runs Scrapy's own tests on Shoal's scheduler.

    pip download --no-deps --no-binary scrapy scrapy==2.19.0 && tar xf scrapy-*.tar.gz && cd scrapy-*/
    export PYTHONPATH=$SHOAL
    python -m pytest -p no:asyncio -p tools.scrapy_plugin --reactor=asyncio tests/test_crawl.py

Each crawl has a queue of its own. The last lines say how many of the tests crawled through it.
"""

import tempfile
import uuid
from typing import Any

import pytest
import scrapy.settings.default_settings as defaults

from shoal.scrapy import Scheduler

FOLDER = tempfile.TemporaryDirectory(prefix="shoal-scrapy-tests-")
_crawls: list[str] = []
_crawled: dict[str, str] = {}  # tests that used the queue, and their outcomes


class QueuePerCrawl(Scheduler):
    """The scheduler with a new queue for each crawl."""

    @classmethod
    def from_crawler(cls, crawler: Any) -> Any:
        _crawls.append("")
        crawler.settings.frozen = False
        queue = f"sqlite:///{FOLDER.name}/{uuid.uuid4().hex}.db"
        crawler.settings.set("SHOAL_QUEUE", queue, priority="cmdline")
        crawler.settings.frozen = True
        return super().from_crawler(crawler)


def pytest_configure(config: Any) -> None:
    defaults.SCHEDULER = f"{__name__}.QueuePerCrawl"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    report = yield
    if call.when == "setup":
        item.crawls_before = len(_crawls)
    elif call.when == "call" and len(_crawls) > item.crawls_before:
        _crawled[item.nodeid] = report.outcome
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    outcomes = list(_crawled.values())
    terminalreporter.write_line(
        f"Crawled through the queue: {len(outcomes)} tests, {outcomes.count('passed')} passed"
    )
    for name, outcome in _crawled.items():
        if outcome == "failed":
            terminalreporter.write_line(f"QUEUE FAILED {name}")


def pytest_unconfigure(config: Any) -> None:
    FOLDER.cleanup()
