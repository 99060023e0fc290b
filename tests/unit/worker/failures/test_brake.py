"""When the failures of a step end a run, and when not."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.model import ZERO, Bury, Counts, Done, Fate, Lease, RunState, Stats, Task
from shoal.scrape.settings.readers import StopWhen, read_stop_when
from shoal.worker.failures.brake import FailureBrake

LAST = 100


class Run:
    """A run of several workers: its counts are those of all, and one of them has a brake."""

    def __init__(self, last=LAST, *, empty=False):
        self.completed, self.dead, self.reason, self.state = 0, 0, None, RunState.RUNNING
        self.items = 0
        limit = None if last is None else StopWhen(last, empty)
        self.brake = FailureBrake(self, "1", limit, lambda: None)

    async def stats(self, run_id):
        counts = Counts(pending=1_000, completed=self.completed, dead=self.dead, items=self.items)
        return Stats(pending=1_000, steps={"book": counts})

    async def run(self, run_id):
        return self

    async def finish(self, run_id, reason):
        self.reason = reason

    async def yield_items(self, *counts):
        """Settle own tasks that are completed with so many items."""
        for count in counts:
            self.completed += 1
            self.items += count
            task = Task(step="book")
            zero = {"start_in": ZERO, "deadline_in": ZERO}
            lease = Lease(task_id="1", run_id="1", token=1, task=task, attempt=1, **zero)
            self.brake.count(Done(lease, items=[{}] * count), Fate.ACCEPTED)
            await self.brake._check()
            if self.reason:
                return

    async def work(self, *errors, others=0, others_done=0):
        """Settle own tasks, with an error or None, and as many of each kind by other workers for each."""
        lease = Lease(
            task_id="1",
            run_id="1",
            token=1,
            task=Task(step="book"),
            attempt=1,
            start_in=ZERO,
            deadline_in=ZERO,
        )
        for error in errors:
            outcome = Bury(lease, error) if error else Done(lease)
            self.dead += bool(error) + others
            self.completed += (not error) + others_done
            self.brake.count(outcome, Fate.ACCEPTED)
            await self.brake._check()
            if self.reason:
                return


async def test_a_run_whose_tasks_all_fail_alike_is_ended_with_the_reason():
    run = Run()
    await run.work(*["IndexError: list index out of range"] * 1_000)
    assert LAST <= run.dead <= LAST + 10
    assert "stop_when=100" in run.reason and "'book'" in run.reason and "IndexError" in run.reason


async def test_a_run_that_another_worker_has_ended_is_not_ended_and_reported_again(caplog):
    run = Run()
    run.state = RunState.PARTIAL
    await run.work(*["IndexError: list index out of range"] * 1_000)
    assert run.reason is None and not caplog.records


async def test_a_worker_with_few_tasks_of_its_own_counts_those_of_the_others():
    run = Run()
    await run.work(*["IndexError: x"] * 20, others=20)
    assert run.reason


async def test_a_run_whose_pages_have_no_items_any_more_is_ended_if_it_asks_for_that():
    run = Run(empty=True)
    await run.yield_items(*[0] * 200, *[1] * 50)
    assert run.reason is None  # a step that had none, as of a list
    await run.yield_items(*[0] * 1_000)
    assert LAST <= run.completed - 250 <= LAST + 40
    assert run.reason.startswith(
        "stop_when=100, empty: nearly all of the last tasks of step 'book' yielded no"
    )
    for run, counts in ((Run(), [0]), (Run(empty=True), [0, 0, 0, 0, 0, 0, 0, 0, 1])):
        await run.yield_items(1, *counts * 200)
        assert run.reason is None


def test_a_limit_is_a_number_of_tasks_empty_or_both():
    limits = {"off": None, 50: "50", "empty": "200, empty", "50, empty": "50, empty", "50": "50"}
    for given, shown in limits.items():
        read = read_stop_when("stop_when", given)
        assert (read and str(read)) == shown and read_stop_when("stop_when", shown) == read
    for given in ("5", "5 6", "", "much"):
        with pytest.raises(InvalidSetting):
            read_stop_when("stop_when", given)


@pytest.mark.parametrize(
    "errors",
    [
        (["IndexError: x"] * 9 + [None]) * 100,
        (["IndexError: x"] * 3 + ["KeyError: x"] * 3) * 100,
        ["HttpStatus: The host returned status 404"] * 500,
        ["Skipped: its URL matches the setting skip"] * 500,
        ["IndexError: x"] * 50 + [None] * 50 + ["IndexError: x"] * 50,
    ],
)
async def test_a_run_with_other_outcomes_goes_on(errors):
    run = Run()
    await run.work(*errors)
    assert run.reason is None


async def test_a_worker_that_fails_alone_does_not_end_the_run_of_the_others():
    run = Run()
    await run.work(*["ConnectFailed: no network"] * 500, others_done=1)
    assert run.reason is None


async def test_the_brake_can_be_off():
    run = Run(last=None)
    await run.work(*["IndexError: x"] * 500)
    assert run.reason is None


async def test_a_resumed_run_gets_as_many_tasks_again():
    run = Run()
    await run.work(*["IndexError: x"] * 500)
    ended_at, run.reason = run.dead, None
    await run.work(*["IndexError: x"] * 500)
    assert run.reason and run.dead - ended_at >= LAST
