import pytest

from shoal import Page, Scraper
from shoal.fleet.job import Job
from shoal.worker.slots import ConcurrencySlots
from tests.unit.builders import make_run

pages = Scraper("pages")
RUN = make_run(scraper="pages")


@pages.step
async def page(page: Page):
    yield {"url": page.url}


@pytest.mark.parametrize(
    ("given", "concurrency", "max_slow"),
    [({}, 64, 1_000), ({"concurrency": 5}, 5, 0), ({"concurrency": 64}, 64, 0)],
)
def test_a_bound_that_is_given_holds_and_slow_requests_come_beside_the_default_only(
    given, concurrency, max_slow
):
    job = Job(scraper=pages, name="p", reference="p.py", queue_url="sqlite:///", **given)
    slots = ConcurrencySlots(job.worker_config(RUN).concurrency)
    for number in range(concurrency):
        assert slots.is_free
        slots.take(number, 0.0)
    assert not slots.is_free and slots.max_slow == max_slow
