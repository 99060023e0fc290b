from datetime import UTC, datetime

import pytest

from shoal import Page, Scraper
from shoal.core.model import Run, RunSettings, RunState
from shoal.fleet.job import Job

pages = Scraper("pages")
RUN = Run(
    id="r", scraper="pages", settings=RunSettings(), state=RunState.RUNNING, started_at=datetime.now(UTC)
)


@pages.step
async def page(page: Page):
    yield {"url": page.url}


@pytest.mark.parametrize(
    ("given", "at_once", "slow_requests"),
    [
        ({}, 64, 1_000),
        ({"at_once": 5}, 5, 0),
        ({"at_once": 64}, 64, 0),
        ({"at_once": 5, "slow_requests": 7}, 5, 7),
        ({"slow_requests": 0}, 64, 0),
    ],
)
def test_a_bound_that_is_given_holds_and_slow_requests_come_beside_the_default_only(
    given, at_once, slow_requests
):
    job = Job(scraper=pages, name="p", reference="p.py", queue_url="sqlite:///", **given)
    config = job.worker_config(RUN)
    assert (config.at_once, config.slow_requests) == (at_once, slow_requests)
