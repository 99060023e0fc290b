from datetime import UTC, datetime, timedelta

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.model import ZERO, Done, Lease, Release, RunSettings, Task
from shoal.queue.intake import in_runs, prepare
from shoal.queue.requests import ClaimRequest, check_claim, check_run, new_run_id


def lease(task_id: str, run_id: str = "a", token: int = 1) -> Lease:
    return Lease(
        run_id=run_id,
        task_id=task_id,
        token=token,
        task=Task(),
        attempt=1,
        start_in=ZERO,
        deadline_in=ZERO,
    )


def test_a_run_id_contains_its_time_and_sorts_by_it():
    early, late = (new_run_id(datetime(2026, 2, 15, hour, tzinfo=UTC)) for hour in (9, 12))
    assert late.startswith("20260215_120000_")
    assert len(late) == 20
    assert early < late


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (RunSettings(host_delay=timedelta(-1)), "host_delay"),
        (RunSettings(per_host=0), "per_host"),
        (RunSettings(max_attempts=0), "max_attempts"),
        (RunSettings(ttl=ZERO), "ttl"),
    ],
)
def test_an_invalid_setting_is_named(settings, key):
    with pytest.raises(InvalidSetting, match=f"^{key} must") as caught:
        check_run("books", settings, None)
    assert caught.value.key == key


@pytest.mark.parametrize("run_id", ["", "a b", "ä", "x" * 101, "a/b", "a\n"])
def test_a_run_id_that_would_not_fit_on_a_command_line_is_refused(run_id):
    with pytest.raises(InvalidSetting, match="run_id"):
        check_run("books", RunSettings(), run_id)


def test_a_claim_needs_a_limit_and_a_lease():
    for limit, duration in [(0, timedelta(1)), (1, ZERO), (-1, timedelta(1))]:
        with pytest.raises(InvalidSetting):
            check_claim(ClaimRequest("worker", "run", limit, duration))


def test_the_second_outcome_for_a_lease_is_ignored():
    outcomes = [Done(lease("x")), Release(lease("x")), Done(lease("x", token=2))]
    assert list(in_runs(prepare(outcomes, {}))) == [("a", [0, 2])]


def test_outcomes_keep_their_order_across_runs():
    outcomes = [Done(lease("x")), Done(lease("y", "b")), Done(lease("z"))]
    assert list(in_runs(prepare(outcomes, {}))) == [("a", [0]), ("b", [1]), ("a", [2])]
