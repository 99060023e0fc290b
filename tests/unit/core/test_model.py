"""The core types: safe defaults, sums that add up, and errors as text."""

from dataclasses import fields
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.failures import error_text
from shoal.core.model import (
    ZERO,
    Counts,
    EnqueueReport,
    Task,
)
from shoal.core.request_options import RequestOptions

REPORTS = st.builds(EnqueueReport, added=st.integers(0), duplicate=st.integers(0), invalid=st.integers(0))


def test_a_task_needs_nothing_and_its_default_payload_cannot_be_changed():
    task = Task()
    assert (task.url, task.step, task.key, task.partition, task.priority) == (None, "main", None, "", 0)
    assert (task.ttl, task.delay, task.depth) == (None, ZERO, 0)
    with pytest.raises(TypeError):
        task.payload["x"] = 1


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
