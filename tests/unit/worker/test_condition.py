"""What a heartbeat says of a worker."""

import os
from datetime import timedelta

import pytest

from shoal.core.model import MINUTE, WorkerStatus
from shoal.fleet.overview import worker_row
from shoal.worker.calls import Listening
from shoal.worker.condition import HOUR, MOST_ERRORS, Condition, last_hour_of, memory_of
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


def status(info, *, completed, silent):
    return WorkerStatus(
        worker_id="w",
        run_id="r",
        state="ended",
        info=info,
        last_beat=timedelta(seconds=silent),
        leased=0,
        completed=completed,
        failed=0,
        items=0,
    )


def test_the_last_hour_of_a_worker_that_has_ended_grows_old():
    seen = condition()
    for pages in range(541):  # one each 10 seconds
        info = seen.info(None, Tally(pages=pages), pages * 10.0)
    ages = [last_hour_of(status(info, completed=540, silent=60 * minutes)) for minutes in range(0, 70, 10)]
    assert 354 <= ages[0] <= 367 and ages == sorted(ages, reverse=True)
    assert 150 <= ages[3] <= 215 and ages[6] == 0


def test_the_last_hour_has_what_was_done_since_the_last_heartbeat():
    info = condition().info(None, Tally(pages=20), 0.0)
    assert last_hour_of(status(info, completed=28, silent=4)) == 28
    assert last_hour_of(status({}, completed=28, silent=4)) is None


def test_a_listening_worker_tells_itself_what_it_did_for_callers():
    tally = Tally(pages=194, items=200, retried=1, buried=2)
    info = condition(listening=Listening(host="127.0.0.1")).info(None, tally, 0.0, 5)
    assert info["own"] == {"leased": 5, "completed": 194, "failed": 3, "items": 200}
    row = worker_row(status(info, completed=0, silent=1))
    assert (row["completed"], row["failed"], row["items"], row["last_hour"]) == (194, 3, 200, 194)


def test_only_so_many_classes_of_errors_are_named():
    tally = Tally(errors={f"Error{number}": number for number in range(1, 101)})
    errors = condition().info(None, tally, 0.0)["errors"]
    assert len(errors) == MOST_ERRORS and errors["Error100"] == 100


def test_a_process_that_is_gone_has_no_memory():
    assert memory_of(2**22 + 1) is None


@pytest.mark.parametrize("told", ["<b>7</b>", ["1", 2], {"a": 1}, None])
def test_what_is_no_number_in_a_heartbeat_counts_as_none_and_breaks_no_report(told):
    info = {"last_hour": told, "spans": told, "pages": told, "own": told}
    row = worker_row(status(info, completed=5, silent=4))
    assert row["completed"] == 5 and isinstance(row["last_hour"], int)
