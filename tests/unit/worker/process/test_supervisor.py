"""What a supervisor does while its worker runs, as far as it needs no process."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace

import msgspec
import pytest

from shoal.core.errors import QueueError
from shoal.core.model import MINUTE, ZERO, Fate, Release, Retry, Task
from shoal.worker.counters import WorkerCounters
from shoal.worker.ipc.protocol import (
    WAKE,
    ExitReason,
    LeasesClaimed,
    LeasesSettled,
    WorkerConfig,
    WorkerEnded,
    WorkerProgress,
)
from shoal.worker.ipc.step_markers import StepMarker
from shoal.worker.process import supervisor as module
from shoal.worker.process.dead_worker import StepLimit
from shoal.worker.process.liveness import SAMPLE_INTERVAL_SECONDS, LivenessSample
from shoal.worker.process.supervisor import CLOSE_TIMEOUT, WorkerSupervisor
from tests.unit.builders import make_lease

LIMITS = {"page": StepLimit(MINUTE, 3, timedelta(seconds=100))}


class Store:
    """A queue whose extensions fail with the given errors."""

    def __init__(self, *errors):
        self.errors, self.extended, self.extended_workers = list(errors), 0, []

    async def extend(self, leases, *, lease):
        if self.errors and (error := self.errors.pop(0)):
            raise error
        self.extended += 1

    async def extend_worker(self, worker_id, *, lease):
        self.extended_workers.append((worker_id, lease))


def supervise(queue, lease=30):
    config = WorkerConfig(
        queue="", run_id="r", worker_id="w", scraper="s", lease=timedelta(seconds=lease), memory=1 << 20
    )
    return WorkerSupervisor(queue, config, None, limits=LIMITS)


def leases(count, start_in=ZERO):
    return [
        make_lease(Task(url=f"https://a.test/{number}", step="page"), task_id=f"t{number}", start_in=start_in)
        for number in range(count)
    ]


async def test_a_failed_extension_is_retried_soon_and_then_less_often(monkeypatch):
    slept, enough = [], 9

    async def sleep(seconds):
        slept.append(seconds)
        if len(slept) == enough:
            raise asyncio.CancelledError

    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    queue = Store(None, QueueError("away"), QueueError("full"), *[QueueError("away")] * 3, None)
    supervisor = supervise(queue)
    supervisor._handle_message(LeasesClaimed(1, leases(1)))
    with pytest.raises(asyncio.CancelledError):
        await supervisor._renew_leases()
    assert slept == [10, 10, 0.2, 0.4, 0.8, 1.6, 2.0, 10, 10]


async def test_every_lease_of_the_worker_is_extended_only_while_its_loop_is_silent():
    queue = Store()
    supervisor = supervise(queue)
    observe(supervisor, 2)
    await supervisor._renew_leases_once()
    assert queue.extended == 0, "it holds nothing"
    supervisor._handle_message(LeasesClaimed(1, leases(1)))
    await supervisor._renew_leases_once()
    assert (queue.extended, queue.extended_workers) == (1, [])
    last = supervisor._liveness._last
    busy = [StepMarker(1, 7.0)]
    # The step blocks the loop, and its time is not over.
    for late in (SAMPLE_INTERVAL_SECONDS, 2 * SAMPLE_INTERVAL_SECONDS):
        supervisor._liveness.judge(LivenessSample(last.at + late, last.beats, busy))
    await supervisor._renew_leases_once()
    assert (queue.extended, queue.extended_workers) == (2, [("w", timedelta(seconds=30))])


async def test_an_idle_worker_sends_half_as_many_heartbeats(monkeypatch):
    intervals = []

    def timeout(seconds):
        intervals.append(seconds)
        if len(intervals) == 2:
            raise asyncio.CancelledError
        return asyncio.timeouts.timeout(0)

    monkeypatch.setattr(module.asyncio, "timeout", timeout)
    supervisor = supervise(Store())
    supervisor._handle_message(LeasesClaimed(1, leases(1)))
    supervisor._beat_once = lambda state: asyncio.sleep(0)
    supervisor._heartbeats.until_next = timedelta.total_seconds
    supervisor._state_changed = SimpleNamespace(clear=lambda: None, wait=lambda: _settle_all(supervisor))
    with pytest.raises(asyncio.CancelledError):
        await supervisor._beat()
    assert intervals == [5, 10]


async def _settle_all(supervisor):
    supervisor._handle_message(LeasesSettled([1]))


class Writer:
    """Collects what the supervisor sends."""

    def __init__(self):
        self.sent = b""

    def write(self, data):
        self.sent += data

    def is_closing(self):
        return False


def test_a_worker_is_woken_only_while_it_holds_nothing():
    supervisor = supervise(Store())
    supervisor._writer = writer = Writer()
    supervisor.wake_up()
    assert writer.sent == WAKE
    supervisor._handle_message(LeasesClaimed(1, leases(1)))
    supervisor.wake_up()
    assert writer.sent == WAKE


def test_every_claim_is_reported_and_whether_it_was_full():
    full = []
    supervisor = supervise(Store())
    supervisor._on_claim = full.append
    supervisor._handle_message(LeasesClaimed(1, leases(1)))
    supervisor._handle_message(LeasesClaimed(2, leases(1), is_full=True))
    assert full == [False, True]


def observe(supervisor, seconds):
    """Let the supervisor take samples while the loop runs."""
    for _ in range(round(seconds / SAMPLE_INTERVAL_SECONDS)):
        last = supervisor._liveness._last
        now, beats = (last.at, last.beats) if last else (0.0, 0)
        supervisor._liveness.judge(LivenessSample(now + SAMPLE_INTERVAL_SECONDS, beats + 1, []))


def test_a_task_that_does_not_end_while_the_loop_runs_is_stuck_when_nothing_else_is_settled():
    supervisor = supervise(Store())
    observe(supervisor, 1)
    supervisor._handle_message(LeasesClaimed(1, leases(3)))
    observe(supervisor, 120)
    assert not supervisor._find_stuck()
    supervisor._handle_message(LeasesSettled([1]))
    observe(supervisor, 120)
    assert not supervisor._find_stuck(), "one was settled meanwhile"
    observe(supervisor, 20)
    assert supervisor._find_stuck() == [2, 3]


def test_tasks_whose_steps_go_on_receiving_responses_are_not_stuck():
    supervisor = supervise(Store())
    observe(supervisor, 1)
    supervisor._handle_message(LeasesClaimed(1, leases(3)))
    for received in range(1, 5):
        observe(supervisor, 100)
        assert not supervisor._find_stuck()
        supervisor._handle_message(WorkerProgress(WorkerCounters(bytes=received)))
    for _ in range(2):  # in which nothing is received
        observe(supervisor, 100)
        supervisor._handle_message(WorkerProgress(WorkerCounters(bytes=4)))
    assert supervisor._find_stuck() == [1, 2, 3]


def test_a_task_is_not_stuck_before_its_start_nor_while_the_queue_is_unreachable():
    supervisor = supervise(Store())
    observe(supervisor, 1)
    supervisor._handle_message(LeasesClaimed(1, leases(1, start_in=timedelta(seconds=60))))
    observe(supervisor, 180)
    assert not supervisor._find_stuck()
    observe(supervisor, 20)
    assert supervisor._find_stuck()
    supervisor._can_renew = False
    assert not supervisor._find_stuck()


class LastStore:
    """A queue that records what is settled, abandoned and reported at the end."""

    def __init__(self, fate=Fate.ACCEPTED, error=None):
        self.fate, self.error = fate, error
        self.settled, self.abandoned, self.states = [], [], []

    async def settle(self, outcomes):
        if self.error:
            raise self.error
        self.settled += outcomes
        return [self.fate] * len(outcomes)

    async def abandon(self, worker_id, *, once, reason):
        self.abandoned.append((worker_id, reason))
        return 0

    async def beat_together(self, run_id, beats):
        self.states += [beat.state for beat in beats]


class Markers:
    """Markers of a process in which the steps of these leases were running."""

    def __init__(self, *numbers, in_progress=()):
        self._numbers, self._in_progress = numbers, in_progress

    def running_steps(self):
        return [SimpleNamespace(number=number) for number in self._numbers]

    def in_progress(self, numbers):
        return set(numbers).intersection(self._in_progress)


async def test_only_the_task_whose_step_ran_is_charged_when_the_worker_dies():
    queue = LastStore()
    supervisor = supervise(queue)
    supervisor._handle_message(LeasesClaimed(1, leases(3)))
    ending = await supervisor._close(-9, Markers(2))
    assert [type(outcome) for outcome in queue.settled] == [Release, Retry, Release]
    assert ending.reason is ExitReason.DIED and ending.message == "was ended by SIGKILL"
    assert ending.killers == ending.blamed == {"t1"}
    assert queue.states == ["died"] and queue.abandoned[0][0] == "w"


async def test_where_no_step_ran_the_tasks_in_progress_are_suspected_and_none_is_charged():
    queue = LastStore()
    supervisor = supervise(queue)
    supervisor._handle_message(LeasesClaimed(1, leases(3)))
    ending = await supervisor._close(-11, Markers(in_progress=[1, 3]))
    assert [type(outcome) for outcome in queue.settled] == [Release, Release, Release]
    assert ending.suspects == {"t0", "t2"} and not ending.blamed and not ending.killers


async def test_a_suspect_that_ran_alone_is_charged_and_no_other():
    queue = LastStore()
    supervisor = supervise(queue)
    supervisor.config = msgspec.structs.replace(supervisor.config, suspects={"t1": 1})
    supervisor._handle_message(LeasesClaimed(1, leases(3)))
    ending = await supervisor._close(-11, Markers(in_progress=[2]))
    assert [type(outcome) for outcome in queue.settled] == [Release, Retry, Release]
    assert ending.killers == ending.blamed == {"t1"} and not ending.suspects


async def test_nothing_is_suspected_when_the_pool_itself_kills_a_worker():
    supervisor = supervise(LastStore())
    supervisor._handle_message(LeasesClaimed(1, leases(1)))
    supervisor.kill()
    ending = await supervisor._close(-9, Markers(in_progress=[1]))
    assert not ending.suspects


async def test_a_task_that_another_worker_has_by_now_is_not_blamed():
    queue = LastStore(fate=Fate.STALE)
    supervisor = supervise(queue)
    supervisor._handle_message(LeasesClaimed(1, leases(1)))
    ending = await supervisor._close(-9, Markers(1))
    assert ending.killers == {"t0"} and not ending.blamed


async def test_leases_that_the_worker_could_not_report_are_released_even_if_settling_fails():
    queue = LastStore(error=QueueError("away"))
    supervisor = supervise(queue)
    supervisor._handle_message(LeasesClaimed(1, leases(1)))
    await supervisor._close(None, Markers())
    assert queue.abandoned == [("w", "WorkerDied: the worker vanished, and delivery is at_most_once")]


async def test_a_worker_gets_the_time_that_its_last_hooks_may_take():
    supervisor = supervise(LastStore())
    supervisor._handle_message(WorkerEnded(ExitReason.DRAINED))
    assert supervisor._close_timeout == CLOSE_TIMEOUT
    supervisor._handle_message(WorkerEnded(ExitReason.DRAINED, timedelta(minutes=15)))
    assert supervisor._close_timeout > timedelta(minutes=15)


async def test_a_worker_that_reported_its_end_has_not_died():
    queue = LastStore()
    supervisor = supervise(queue)
    supervisor._handle_message(LeasesClaimed(1, leases(2)))
    supervisor._handle_message(LeasesSettled([1, 2], 2))
    supervisor._handle_message(WorkerEnded(ExitReason.DRAINED))
    ending = await supervisor._close(0, Markers())
    assert (ending.reason, ending.settled, queue.settled, queue.states) == (
        ExitReason.DRAINED,
        2,
        [],
        ["ended"],
    )
    assert supervisor.completed == 2
