"""The limits of CLOSESPIDER_… that a run has, whichever worker reaches them."""

import pytest
from scrapy.settings import Settings

from shoal.core.model import Stats
from shoal.scrapy.limits import FleetLimits
from shoal.scrapy.settings import engine_settings


def stats(items=0, completed=0):
    return Stats(items=items, completed=completed)


@pytest.mark.parametrize(
    ("name", "below", "reached"),
    [
        ("ITEMCOUNT", (stats(items=9), {}, 0.0), (stats(items=10), {}, 0.0)),
        (
            "ERRORCOUNT",
            (stats(), {"spider_exceptions/count": 9}, 0.0),
            (stats(), {"spider_exceptions/count": 12}, 0.0),
        ),
        (
            "PAGECOUNT",
            (stats(completed=99), {"response_received_count": 9}, 0.0),
            (stats(), {"response_received_count": 10}, 0.0),
        ),
        ("TIMEOUT_NO_ITEM", (stats(), {}, 9.9), (stats(), {}, 10.0)),
        ("PAGECOUNT_NO_ITEM", (stats(completed=9), {}, 0.0), (stats(completed=10), {}, 0.0)),
    ],
)
def test_a_limit_is_reached_by_the_counts_of_the_run(name, below, reached):
    settings = Settings({f"CLOSESPIDER_{name}": 10})
    limits = FleetLimits(settings)
    assert limits
    assert limits.reached(stats(), {}, 0.0) is None
    assert limits.reached(*below) is None
    assert limits.reached(*reached) == f"closespider_{name.lower()}"
    assert engine_settings(settings)[f"CLOSESPIDER_{name}"] == 0  # not by the counts of one worker


def test_an_item_of_any_worker_starts_the_limits_without_items_again():
    limits = FleetLimits(Settings({"CLOSESPIDER_TIMEOUT_NO_ITEM": 10, "CLOSESPIDER_PAGECOUNT_NO_ITEM": 5}))
    limits.reached(stats(), {}, 0.0)
    assert limits.reached(stats(items=1, completed=4), {}, 9.0) is None
    assert limits.reached(stats(items=1, completed=8), {}, 18.0) is None
    assert limits.reached(stats(items=1, completed=8), {}, 19.0) == "closespider_timeout_no_item"
    assert limits.reached(stats(items=2, completed=9), {}, 19.0) is None
    assert limits.reached(stats(items=2, completed=14), {}, 20.0) == "closespider_pagecount_no_item"


def test_without_limits_there_is_nothing_to_look_at():
    assert not FleetLimits(Settings())
