"""The delay and the limit of a host hold for all workers, and for requests within tasks."""

import json

import pytest

from tests.integration.scrapy.crawls import PROJECT

pytestmark = [pytest.mark.alone, pytest.mark.timeout(300)]
DELAY = 0.25


@pytest.mark.parametrize("spider", ["paced", "covers"])
def test_workers_keep_the_delay_of_a_host_together(crawls, tmp_path, spider):
    queue, name = f"sqlite:///{tmp_path}/queue.db", f"paced{spider}"
    options = ["-s", f"DOWNLOAD_DELAY={DELAY}", "--workers", "2"]
    command = ["-m", "shoal", "run", f"{PROJECT}:{spider}", "--queue", queue, *options]
    crawls.run(command, cwd=tmp_path, name=name)
    assert len(crawls.site.gaps(name)) > 10
    assert min(crawls.site.gaps(name)) >= 0.8 * DELAY  # at the site: connecting takes some milliseconds


def test_a_delay_that_the_spider_sets_on_itself_holds_too(crawls, tmp_path):
    options = ["--workers", "2", "--queue", f"sqlite:///{tmp_path}/queue.db", "-a", f"delay={DELAY}"]
    crawls.run(["-m", "shoal", "run", f"{PROJECT}:polite", *options], cwd=tmp_path, name="polite")
    assert len(crawls.site.gaps("polite")) == 8
    assert min(crawls.site.gaps("polite")) >= 0.8 * DELAY


def test_scrapy_crawl_keeps_to_no_limit_of_its_own_engine(crawls, tmp_path):
    slots = json.dumps({"127.0.0.1": {"delay": DELAY}})
    queue = {"SCHEDULER": "shoal.scrapy.Scheduler", "SHOAL_QUEUE": f"sqlite:///{tmp_path}/queue.db"}
    own = {"CONCURRENT_REQUESTS": 0, "DOWNLOAD_DELAY": 0.1, "DOWNLOAD_SLOTS": slots}
    own |= {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 30}
    options = [word for name, value in {**queue, **own}.items() for word in ("-s", f"{name}={value}")]
    crawls.run(["-m", "scrapy", "crawl", "polite", *options], cwd=PROJECT, name="nolimit")
    gaps = crawls.site.gaps("nolimit")
    assert len(gaps) == 8
    assert min(gaps) >= 0.8 * DELAY
    assert sum(gaps) < 1.5 * 8 * DELAY
