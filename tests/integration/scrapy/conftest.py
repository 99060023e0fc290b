import pytest

from tests.integration.scrapy.crawls import Crawls
from tests.integration.scrapy.site import serve


@pytest.fixture(scope="session")
def site():
    with serve() as site:
        yield site


@pytest.fixture
def crawls(site, tmp_path):
    site.delay = 0.0
    return Crawls(site, tmp_path)
