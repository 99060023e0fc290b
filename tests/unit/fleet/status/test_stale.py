"""Which leases are stale: decided by who holds them, and for how long."""

import socket
from datetime import UTC, datetime, timedelta

import pytest

from shoal.core.model import MINUTE, TaskState, TaskStatus
from shoal.core.procfs import pid_scope
from shoal.fleet.dead_workers import MAX_SILENCE
from shoal.fleet.status.at_work import state_of
from shoal.fleet.status.stale import judge
from shoal.worker.process.heartbeat import HEARTBEAT_INTERVAL
from tests.unit.builders import make_worker

NOW = datetime(2026, 2, 15, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FAR = "elsewhere-17-abcd"


def held(minutes):
    since = NOW - minutes * MINUTE
    return TaskStatus(
        id=f"t{minutes}", step="page", state=TaskState.LEASED, url="https://h/?c4nary", since=since
    )


def worker(state="running", beat=SECOND, name=FAR, info=None):
    return make_worker(worker_id=name, state=state, info=info or {}, last_beat=beat, leased=1)


def judged(found, *tasks, name=FAR):
    return judge("r", name, found, tasks, older=10 * MINUTE, now=NOW)


def test_a_worker_with_heartbeats_and_fresh_leases_holds_nothing_stale():
    assert judged(worker(), held(1), held(9)) is None


def test_a_silent_worker_holds_nothing_but_stale_leases():
    holder = judged(worker(beat=MAX_SILENCE + SECOND), held(0), held(1))
    assert holder.is_gone and len(holder.tasks) == 2
    assert holder.why == "missed its heartbeats"


@pytest.mark.parametrize("state", ["ended", "died"])
def test_a_worker_that_has_ended_holds_nothing_but_stale_leases(state):
    assert judged(worker(state), held(0)).is_gone


def test_of_a_living_worker_only_old_leases_are_shown_and_it_is_not_gone():
    holder = judged(worker(), held(1), held(11), held(12))
    assert [task.id for task in holder.tasks] == ["t11", "t12"]
    assert not holder.is_gone and holder.oldest == 12 * MINUTE


def test_one_without_heartbeats_is_judged_by_age_alone():
    assert judged(None, held(9)) is None
    holder = judged(None, held(11))
    assert (holder.is_gone, holder.silent) == (False, None)


def test_a_process_of_this_machine_that_is_gone_needs_no_waiting():
    name = f"{socket.gethostname()}-{2**22 + 1}-abcd"
    assert (
        judged(worker(name=name, info={"pid_scope": pid_scope()}), held(0), name=name).why
        == "its process is gone"
    )


def test_a_frozen_worker_is_said_to_be():
    holder = judged(worker("frozen"), held(11))
    assert (holder.why, holder.is_gone) == ("its process is frozen", False)


@pytest.mark.parametrize("state", ["running", "frozen", "filling", "waiting"])
def test_a_worker_with_missing_heartbeats_is_late(state):
    assert state_of(worker(state, beat=MAX_SILENCE + SECOND)) == "late"
    assert state_of(worker(state)) == state


def test_a_report_holds_no_query():
    row = judged(worker("died"), held(0)).row()
    assert "c4nary" not in str(row)
    assert row.tasks[0].url == "https://h/"


def test_one_missed_heartbeat_does_not_make_a_worker_late():
    assert state_of(worker(beat=2 * HEARTBEAT_INTERVAL)) == "running"
    assert state_of(worker(beat=MAX_SILENCE + SECOND)) == "late"
    assert state_of(worker("ended", beat=MAX_SILENCE + SECOND)) == "ended"
