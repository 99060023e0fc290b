from datetime import timedelta

import pytest

from shoal import Scraper
from shoal.core.model import Counts, RunState, Stats
from shoal.fleet.job import Job
from shoal.fleet.other_steps import UNSERVED_SECONDS, OtherSteps, is_served, left_to_others
from shoal.fleet.status.progress import Snapshot
from tests.unit.builders import make_run, make_worker


def stats(**left):
    return Stats(
        pending=sum(left.values()), steps={name: Counts(pending=count) for name, count in left.items()}
    )


def worker(*steps):
    return make_worker(worker_id="w", info={"steps": list(steps) or None}, last_beat=timedelta())  # fmt: skip


@pytest.mark.parametrize(
    ("left", "steps", "found"),
    [
        ({"detail": 2, "listing": 0}, ["listing"], {"detail": 2}),
        ({"detail": 2, "listing": 1}, ["listing"], {}),
        ({"detail": 2}, None, {}),
        ({"detail": 0}, ["listing"], {}),
    ],
)
def test_tasks_are_left_to_others_if_none_is_of_a_step_that_is_served(left, steps, found):
    assert left_to_others(stats(**left), steps) == found


def test_a_worker_without_a_list_of_steps_serves_all_of_them():
    assert is_served({"detail": 1}, [worker()]) and is_served({"detail": 1}, [worker("detail")])
    assert not is_served({"detail": 1}, [worker("listing")]) and not is_served({"detail": 1}, [])


class Stand:
    def __init__(self, *, joins):
        scraper = Scraper("two")
        for name in ("listing", "detail"):
            scraper.step(name=name)(lambda page: None)
        job = Job(
            scraper=scraper,
            name="two.py",
            reference="two.py",
            queue_url="sqlite:///shoal.db",
            steps=["listing"],
            joins=joins,
        )
        self.said, self.stops, self.now, self.at_work = [], 0, 0.0, []
        self.others = OtherSteps(self, job, say=self.said.append, stop=self.stop, clock=lambda: self.now)

    def stop(self):
        self.stops += 1

    async def workers(self, run_id):
        return self.at_work

    async def check(self, *, after=0.0, state=RunState.RUNNING, **left):
        self.now += after
        run = make_run(scraper="two", state=state)
        await self.others.check(Snapshot(run, stats(**left), 0, 0.0, None))


async def test_a_run_waits_while_another_worker_runs_the_other_steps():
    stand = Stand(joins=False)
    stand.at_work = [worker("listing"), worker("detail")]
    for count in (2, 1):
        await stand.check(detail=count, after=UNSERVED_SECONDS)
    (said,) = stand.said
    assert "Other workers do; this command waits until no task is left." in said and not stand.stops


async def test_a_worker_that_joined_a_run_says_what_it_waits_for_and_does_not_end():
    stand = Stand(joins=True)
    for _ in range(3):
        await stand.check(detail=1, after=UNSERVED_SECONDS)
    (said,) = stand.said
    assert said.startswith("Only 1 task of detail is left, ") and not stand.stops
    assert "This command waits for such a worker. To run them: shoal work two.py --run r" in said


async def test_a_paused_run_is_not_ended():
    stand = Stand(joins=False)
    for _ in range(3):
        await stand.check(detail=1, after=UNSERVED_SECONDS, state=RunState.PAUSED)
    assert not stand.said and not stand.stops
