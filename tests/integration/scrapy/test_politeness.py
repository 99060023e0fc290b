"""The delay and the limit of a host hold for all workers, and for requests within tasks."""

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
