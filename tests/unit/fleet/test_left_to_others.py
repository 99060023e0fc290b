from datetime import timedelta

import pytest

from shoal import Scraper
from shoal.core.model import RunState, Stats
from shoal.fleet.job import Job
from shoal.fleet.left_to_others import UNSERVED_SECONDS, Left, LeftToOthers, is_served, left_to_others
from shoal.fleet.status.progress import Snapshot
from tests.unit.builders import make_run, make_worker


def stats(left):
    return Stats(pending=sum(left.values()), left=left)


def worker(*, steps=("listing", "detail"), partitions=None):
    info = {"steps": list(steps), "partitions": partitions}
    return make_worker(worker_id="w", info=info, last_beat=timedelta())


def make_job(**fields):
    scraper = Scraper("two")
    for name in ("listing", "detail"):
        scraper.step(name=name)(lambda page: None)
    return Job(scraper=scraper, name="two.py", reference="two.py", queue_url="sqlite:///shoal.db", **fields)


@pytest.mark.parametrize(
    ("left", "limits", "kinds"),
    [
        ({("detail", ""): 2}, {"steps": ["listing"]}, ("steps",)),
        ({("detail", ""): 2, ("listing", ""): 1}, {"steps": ["listing"]}, None),
        ({}, {"steps": ["listing"]}, None),
        ({("main", ""): 1}, {"steps": ["listing"]}, None),  # the first step handles tasks that name none
        ({("main", ""): 1}, {"steps": ["detail"]}, ("steps",)),
        ({("detail", ""): 2, ("newer", ""): 1}, {}, None),
        ({("newer", ""): 1}, {}, ("steps",)),
        ({("detail", "TX"): 3}, {"partitions": ["CA"]}, ("partitions",)),
        ({("detail", "CA"): 1, ("detail", "TX"): 2}, {"partitions": ["CA"]}, None),
        ({("detail", "TX"): 3}, {"partitions": ["exclusive"]}, None),
        (
            {("detail", "CA"): 1, ("listing", "TX"): 2},
            {"steps": ["listing"], "partitions": ["CA"]},
            ("steps", "partitions"),
        ),
    ],
)
def test_tasks_are_left_to_others_if_the_workers_run_none_of_them(left, limits, kinds):
    assert left_to_others(stats(left), make_job(**limits)) == (kinds and Left(kinds, left))


def test_tasks_are_served_by_workers_that_have_their_step_and_partition():
    def is_run_by(step, partition, **limits):
        return is_served(Left(("steps",), {(step, partition): 1}), [worker(**limits)], make_job().scraper)

    assert is_run_by("detail", "") and not is_run_by("detail", "", steps=["listing"])
    assert is_run_by("detail", "TX") and is_run_by("detail", "TX", partitions=["CA", "TX"])
    assert not is_run_by("detail", "TX", partitions=["CA"])
    assert not is_run_by("listing", "TX", steps=["detail"])
    assert is_run_by("main", "", steps=["listing"]) and not is_run_by("main", "", steps=["detail"])
    assert is_run_by("newer", "", steps=["newer"])


class Stand:
    def __init__(self, **fields):
        self.said, self.stops, self.now, self.at_work = [], 0, 0.0, []
        self.others = LeftToOthers(
            self, make_job(**fields), say=self.said.append, stop=self.stop, clock=lambda: self.now
        )

    def stop(self):
        self.stops += 1

    async def workers(self, run_id):
        return self.at_work

    async def check(self, left, state=RunState.RUNNING):
        run = make_run(scraper="two", state=state)
        for _ in range(3):
            await self.others.check(Snapshot(run, stats(left), 0, 0.0, None))
            self.now += UNSERVED_SECONDS


async def test_a_run_waits_while_another_worker_runs_the_other_steps():
    stand = Stand(steps=["listing"])
    stand.at_work = [worker(steps=["listing"]), worker(steps=["detail"])]
    await stand.check({("detail", ""): 2})
    await stand.check({("detail", ""): 1})
    (said,) = stand.said
    assert said.startswith("Left: 2 tasks of detail, which --steps listing does not run.")
    assert "Other workers run them; waiting until no task is left." in said and not stand.stops


async def test_a_worker_that_joined_a_run_says_what_it_waits_for_and_does_not_end():
    stand = Stand(steps=["listing"], joins=True)
    await stand.check({("detail", ""): 1})
    (said,) = stand.said
    assert "No worker runs them; waiting for one. To run them: shoal work two.py --run r" in said
    assert not stand.stops


async def test_a_run_of_some_partitions_ends_when_the_others_are_left_and_names_them():
    stand = Stand(partitions=["CA"])
    stand.at_work = [worker(partitions=["CA"])]
    await stand.check({("detail", f"P{number}"): 2 for number in range(12)})
    (said,) = stand.said
    assert stand.stops == 1 and "2 tasks of detail in partition P0, 2 tasks of detail in partition P1" in said
    assert "and those of 2 more (all: shoal partitions r), which --partitions CA does not run" in said
    assert said.endswith("To run them: shoal work two.py --run r")


async def test_a_run_of_a_step_and_a_partition_ends_when_tasks_of_each_but_none_of_both_are_left():
    stand = Stand(steps=["listing"], partitions=["CA"])
    stand.at_work = [worker(steps=["listing"], partitions=["CA"])]
    await stand.check({("detail", "CA"): 1, ("listing", "TX"): 2, ("detail", ""): 3})
    (said,) = stand.said
    assert stand.stops == 1
    assert said.startswith(
        "Left: 1 task of detail in partition CA, 3 tasks of detail without a partition, "
        "2 tasks of listing in partition TX, which --steps listing --partitions CA does not run. No worker "
    )


async def test_a_run_of_a_partition_does_not_wait_for_workers_of_another_step():
    stand = Stand(partitions=["CA"])
    stand.at_work = [worker(partitions=["CA"]), worker(steps=["detail"])]
    await stand.check({("listing", "TX"): 2})
    (said,) = stand.said
    assert stand.stops == 1 and "No worker runs them; ending in 15 s" in said


async def test_a_worker_ends_when_no_worker_has_the_steps_of_the_tasks_left():
    stand = Stand(joins=True)
    stand.at_work = [worker()]
    await stand.check({("newer", ""): 1})
    (said,) = stand.said
    assert stand.stops == 1 and "Left: 1 task of newer, which the code here has no step for." in said
    assert "@two.step(name='newer')" in said


async def test_a_paused_run_is_not_ended():
    stand = Stand(steps=["listing"])
    await stand.check({("detail", ""): 1}, state=RunState.PAUSED)
    assert not stand.said and not stand.stops
