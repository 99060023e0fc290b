"""The delay and the limit of a host hold for all workers, and for requests within tasks."""

import json

import pytest

from tests.integration.scrapy.crawls import PROJECT

pytestmark = [pytest.mark.alone, pytest.mark.timeout(300)]
DELAY = 0.25


@pytest.mark.parametrize("spider", ["paced", "covers", "modern"])
def test_workers_keep_the_delay_of_a_host_together(crawls, tmp_path, spider):
    queue, name = f"sqlite:///{tmp_path}/queue.db", f"paced{spider}"
    options = ["-s", f"DOWNLOAD_DELAY={DELAY}", "--workers", "3"]
    command = ["-m", "shoal", "run", f"{PROJECT}:{spider}", "--queue", queue, *options]
    crawls.run(command, cwd=tmp_path, name=name)
    assert len(crawls.site.gaps(name)) > 10
    assert min(crawls.site.gaps(name)) >= 0.8 * DELAY  # at the site: connecting takes some milliseconds


@pytest.mark.parametrize("given", ["spider", "file"])
def test_a_delay_that_the_spider_sets_on_itself_or_that_the_project_file_has_holds_too(
    crawls, tmp_path, given
):
    reference, options = f"{PROJECT}:polite", ["--workers", "2", "--queue", f"sqlite:///{tmp_path}/queue.db"]
    if given == "file":
        table = f'[scrapers.books]\nmodule = "{reference}"\ndelay = {DELAY}\n'
        (tmp_path / "shoal.toml").write_text(table)
        reference = "books"
    else:
        options += ["-a", f"delay={DELAY}"]
    crawls.run(["-m", "shoal", "run", reference, *options], cwd=tmp_path, name=f"polite{given}")
    assert len(crawls.site.gaps(f"polite{given}")) == 8
    assert min(crawls.site.gaps(f"polite{given}")) >= 0.8 * DELAY


@pytest.mark.parametrize(
    "own",
    [
        {"DOWNLOAD_DELAY": DELAY, "AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 30},
        {"DOWNLOAD_SLOTS": json.dumps({"127.0.0.1": {"delay": DELAY}})},
    ],
    ids=["throttle", "slots"],
)
def test_scrapy_crawl_keeps_to_no_limit_of_its_own_engine(crawls, tmp_path, own):
    queue = {"SCHEDULER": "shoal.scrapy.Scheduler", "SHOAL_QUEUE": f"sqlite:///{tmp_path}/queue.db"}
    settings = queue | {"CONCURRENT_REQUESTS": 0} | own
    options = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    name = f"nolimit{len(own)}"
    crawls.run(["-m", "scrapy", "crawl", "polite", *options], cwd=PROJECT, name=name)
    gaps = crawls.site.gaps(name)
    assert len(gaps) == 8
    assert min(gaps) >= 0.8 * DELAY
    assert sum(gaps) < 1.5 * 8 * DELAY
