from datetime import UTC, datetime

from shoal.core.model import ZERO, Done, Lease
from shoal.queue.intake import in_runs, prepare
from shoal.queue.requests import new_run_id
from tests.unit.builders import make_lease


def lease(task_id: str, run_id: str = "a", token: int = 1) -> Lease:
    return make_lease(run_id=run_id, task_id=task_id, token=token, deadline_in=ZERO)


def test_a_run_id_contains_its_time_and_sorts_by_it():
    early, late = (new_run_id(datetime(2026, 2, 15, hour, tzinfo=UTC)) for hour in (9, 12))
    assert late.startswith("20260215_120000_")
    assert len(late) == 20
    assert early < late


def test_outcomes_keep_their_order_across_runs():
    outcomes = [Done(lease("x")), Done(lease("y", "b")), Done(lease("z"))]
    assert list(in_runs(prepare(outcomes, {}))) == [("a", [0]), ("b", [1]), ("a", [2])]
