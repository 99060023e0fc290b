from datetime import timedelta

import pytest

from shoal.core.model import Counts, Stats
from shoal.fleet.status.at_work import unserved_steps
from tests.unit.builders import make_worker


@pytest.mark.parametrize(
    ("served", "unserved"),
    [
        ([["listing"], ["detail"]], {"newer": 2}),
        ([["listing", "newer"]], {"detail": 1}),
        ([["listing"], None], {}),  # a worker without names runs all
        ([], {}),  # then the run is reported as stopped
    ],
)
async def test_steps_with_tasks_left_that_none_of_the_workers_runs_are_known(served, unserved):
    class Queue:
        async def workers(self, run_id):
            return [
                make_worker(worker_id="w", info={"steps": steps}, last_beat=timedelta()) for steps in served
            ]

    left = {"main": 1, "listing": 0, "detail": 1, "newer": 2}
    steps = {name: Counts(pending=count) for name, count in left.items()}
    assert await unserved_steps(Queue(), "r", Stats(pending=4, steps=steps)) == unserved
