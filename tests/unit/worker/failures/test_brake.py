"""When the failures of a step end a run, and when not."""

import pytest

from shoal.core.model import ZERO, Bury, Counts, Done, Fate, Lease, RunState, Stats, Task
from shoal.worker.failures.brake import FailureBrake

LAST = 100


class Run:
    """A run of several workers: its counts are those of all, and one of them has a brake."""

    def __init__(self, last=LAST):
        self.completed, self.dead, self.reason, self.state = 0, 0, None, RunState.RUNNING
        self.brake = FailureBrake(self, "1", last, lambda: None)

    async def stats(self, run_id):
        counts = Counts(pending=1_000, completed=self.completed, dead=self.dead)
        return Stats(pending=1_000, steps={"book": counts})

    async def run(self, run_id):
        return self

    async def finish(self, run_id, reason):
        self.reason = reason

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
