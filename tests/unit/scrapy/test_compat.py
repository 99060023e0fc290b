"""What is used of Scrapy beyond its API has other names in other versions."""

from types import SimpleNamespace

import pytest

from shoal.scrapy.compat import is_running


@pytest.mark.parametrize("name", ["engine", "_engine"])  # up to 2.17, and since
def test_an_engine_runs_in_every_version_once_it_takes_requests(name):
    crawler = SimpleNamespace(**{name: None})
    assert not is_running(crawler)
    setattr(crawler, name, SimpleNamespace(running=False))
    assert not is_running(crawler)
    setattr(crawler, name, SimpleNamespace(running=True))
    assert is_running(crawler)
