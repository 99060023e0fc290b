"""A step that blocks the event loop is named once, with its stack."""

import threading
import time

from shoal.core.events import LOOP_BLOCKED, Event
from shoal.core.failures import TRACEBACK
from shoal.core.model import Task
from shoal.scrape.hooks import ScraperHooks
from shoal.worker.failures.tracebacks import TracebackFormatter
from shoal.worker.ipc.step_markers import StepMarkers
from shoal.worker.process.blocked_loop import LIMIT, BlockedLoopWatch
from tests.unit.builders import make_lease

TASK = Task(url="https://example.com/a?token=secret", step="book")
LEASE = make_lease(TASK)


def watch(markers: StepMarkers, reports: list[Event], hooks: ScraperHooks | None = None) -> BlockedLoopWatch:
    return BlockedLoopWatch(
        markers, {7: LEASE}.get, reports.append, TracebackFormatter(), hooks or ScraperHooks()
    )


def test_a_step_that_blocks_the_loop_is_reported_once_with_its_stack(markers: StepMarkers) -> None:
    reports: list[Event] = []
    watching = watch(markers, reports)

    def look() -> None:
        for _ in range(2):
            watching.look(time.monotonic() + LIMIT)

    with markers.mark_loop(7):
        looking = threading.Thread(target=look)
        looking.start()
        looking.join()
    (event,) = reports
    assert event.name == LOOP_BLOCKED
    assert "Step 'book' has blocked the event loop for 1." in event.fields["message"]
    assert "in test_a_step_that_blocks_the_loop" in event.fields[TRACEBACK]
    assert event.fields["url"] == "https://example.com/a?token=…"


def test_a_short_step_and_an_idle_loop_are_not_reported(markers: StepMarkers) -> None:
    reports: list[Event] = []
    watching = watch(markers, reports)
    watching.look(time.monotonic() + LIMIT)
    with markers.mark_loop(7):
        watching.look(time.monotonic())
    with markers.mark_loop(8):  # of a task that has just ended
        watching.look(time.monotonic() + LIMIT)
    assert not reports


def test_a_hook_that_blocks_the_loop_is_named_instead_of_its_step(markers: StepMarkers) -> None:
    reports: list[Event] = []
    hooks = ScraperHooks()
    watching = watch(markers, reports, hooks)

    def slow(item: object) -> None:
        looking = threading.Thread(target=watching.look, args=(time.monotonic() + LIMIT,))
        looking.start()
        looking.join()

    hooks.add("on_item", slow, example="def clean(item)")
    with markers.mark_loop(7):
        hooks.start_item({}, None)
    (event,) = reports
    assert event.fields["message"].startswith("The hook on_item slow has blocked the event loop for 1.0 s")
    assert event.fields["hook"] == "on_item slow" and "'async def'" in event.fields["message"]
