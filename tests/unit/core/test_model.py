"""The core types: frozen, with safe defaults, and sums that add up."""

import inspect
from dataclasses import FrozenInstanceError, fields, is_dataclass
from datetime import timedelta
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shoal.core import model
from shoal.core.failures import error_text
from shoal.core.model import (
    MINUTE,
    SECOND,
    ZERO,
    Bury,
    Counts,
    Done,
    EnqueueReport,
    Grant,
    Lease,
    Outcome,
    Release,
    Retry,
    RunSettings,
    Stats,
    Task,
)
from shoal.core.request_options import RequestOptions

WORDS = [word for _, word in inspect.getmembers(model, inspect.isclass) if is_dataclass(word)]
LEASE = Lease(run_id="r", task_id="t", token=1, task=Task(), attempt=1, start_in=ZERO, deadline_in=MINUTE)
REPORTS = st.builds(EnqueueReport, added=st.integers(0), duplicate=st.integers(0), invalid=st.integers(0))


@pytest.mark.parametrize("word", WORDS)
def test_every_core_type_is_frozen_and_has_slots(word):
    thing = object.__new__(word)
    with pytest.raises(FrozenInstanceError):
        setattr(thing, fields(word)[0].name, 1)
    assert not hasattr(thing, "__dict__")


def test_a_task_needs_nothing_and_its_default_payload_cannot_be_changed():
    task = Task()
    assert (task.url, task.step, task.key, task.partition, task.priority) == (None, "main", None, "", 0)
    assert (task.ttl, task.delay, task.depth) == (None, ZERO, 0)
    with pytest.raises(TypeError):
        task.payload["x"] = 1


def test_tasks_with_equal_fields_are_equal():
    assert Task(url="https://example.com/", payload={}) == Task(url="https://example.com/")
    assert replace(Task(step="a"), step="b") == Task(step="b")


def test_a_run_is_polite_by_default():
    assert RunSettings() == RunSettings(host_delay=SECOND, per_host=4, max_attempts=3, ttl=None)


def test_an_outcome_is_one_of_four_and_does_not_change_the_host_by_default():
    assert set(get_args(Outcome)) == {Done, Retry, Bury, Release}
    for outcome in (Done(LEASE), Retry(LEASE, "x"), Bury(LEASE, "x")):
        assert outcome.lease is LEASE
        assert (outcome.pause_host, outcome.slow_host) == (None, None)


def test_an_empty_grant_is_neither_due_nor_drained():
    assert Grant() == Grant(leases=(), next_due=None, drained=False)


@settings(deadline=None, database=None)
@given(REPORTS, REPORTS)
def test_reports_add_up_field_by_field(one, other):
    total = one + other
    for field in fields(EnqueueReport):
        assert getattr(total, field.name) == getattr(one, field.name) + getattr(other, field.name)


def test_every_task_is_counted_in_one_state():
    counts = Counts(
        pending=1, delayed=2, leased=4, completed=8, dead=16, expired=32, dropped=64, items=128, rejected=256
    )
    assert counts.remaining == 1 + 2 + 4
    assert counts.tasks == 127


def test_stats_are_counts_with_a_split():
    stats = Stats(pending=3, steps={"main": Counts(pending=3)})
    assert isinstance(stats, Counts)
    assert stats.remaining == stats.steps["main"].remaining == 3
    assert stats.partitions == {}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("lease lost", "lease lost"),
        (ValueError("no price"), "ValueError: no price"),
        (TimeoutError(), "TimeoutError"),
        (KeyError("price"), "KeyError: 'price'"),
        (
            ValueError("\x1b]0;A\x1b\\ \x9b2J\u202etxt"),
            "ValueError: \ufffd]0;A\ufffd\\ \ufffd2J\ufffdtxt",
        ),
    ],
)
def test_an_error_is_stored_as_its_class_and_its_message(error, text):
    assert error_text(error) == text


def test_times_are_timedeltas_and_datetimes():
    assert timedelta(seconds=60) == MINUTE == 60 * SECOND


def test_a_task_for_another_step_differs_in_nothing_else():
    task = Task(
        url="https://a.example/",
        step="one",
        payload={"a": 1},
        key="k",
        partition="p",
        priority=3,
        ttl=timedelta(hours=1),
        delay=timedelta(minutes=1),
        depth=2,
        request=RequestOptions(post=b"a=1"),
    )
    for each in msgspec.structs.fields(Task):
        expected = "two" if each.name == "step" else getattr(task, each.name)
        assert getattr(task.for_step("two"), each.name) == expected
