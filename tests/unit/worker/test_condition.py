"""What a heartbeat says of a worker."""

import os

from shoal.core.model import MINUTE
from shoal.worker.condition import HOUR, MOST_ERRORS, Condition, memory_of
from shoal.worker.line import Order
from shoal.worker.tally import Tally


def condition(**order):
    given = {"queue": "q", "run_id": "r", "worker_id": "w", "scraper": "s", "lease": MINUTE, "memory": 1}
    return Condition(Order(**given, **order))


def test_it_names_what_the_worker_serves():
    info = condition(steps=["a"], partitions=["CA"]).info(os.getpid(), Tally(pages=3), 0.0)
    assert (info["steps"], info["partitions"], info["pages"]) == (["a"], ["CA"], 3)
    assert info["memory"] > 1_000_000


def test_pages_of_the_last_hour_are_counted_and_older_ones_are_not():
    seen = condition()
    hours = [seen.last_hour(pages, pages * 10.0) for pages in range(720)]
    assert hours[100] == 100
    # 10 seconds a page: 360 an hour, and up to one sample of a minute more.
    assert 360 <= hours[-1] <= 367


def test_a_worker_that_stands_still_comes_down_to_zero():
    seen = condition()
    for now in range(0, 120, 5):
        seen.last_hour(now, float(now))
    for now in range(120, int(2 * HOUR), 60):
        left = seen.last_hour(115, float(now))
    assert left == 0


def test_only_so_many_classes_of_errors_are_named():
    tally = Tally(errors={f"Error{number}": number for number in range(1, 101)})
    errors = condition().info(None, tally, 0.0)["errors"]
    assert len(errors) == MOST_ERRORS and errors["Error100"] == 100


def test_a_process_that_is_gone_has_no_memory():
    assert memory_of(2**22 + 1) is None
