"""A span for each task, and in it one each for fetching, handling and settling."""

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.model import MINUTE, ZERO, Bury, Done, Fate, Lease, Release, Task
from shoal.worker import tracing
from shoal.worker.marks import Marks, make_file
from shoal.worker.tracing import MOST_OPEN, Tracing, check_tracing
from shoal.worker.watching import WatchedMarks

URL = "https://user@example.com/a?token=c4nary"


def lease(token=1):
    task = Task(url=URL, step="page")
    return Lease(
        run_id="r", task_id="t", token=token, task=task, attempt=1, start_in=ZERO, deadline_in=MINUTE
    )


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def watcher(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracing(provider.get_tracer("test"), "r", "w")


def test_a_task_has_a_span_with_its_parts_in_it(watcher, exporter):
    watcher.took(range(5, 6), [lease()])
    watcher.fetched(URL, 1.0, 2.0, 200)
    watcher.handled(5, 2.0, 2.5)
    watcher.settled(Done(lease()), Fate.ACCEPTED, 3.0, 4.0)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"task", "fetch", "handle", "settle"}
    assert {span.parent.span_id for name, span in spans.items() if name != "task"} == {
        spans["task"].context.span_id
    }
    lasted = {name: (span.end_time - span.start_time) / 1e9 for name, span in spans.items()}
    assert lasted == pytest.approx({"task": 3.0, "fetch": 1.0, "handle": 0.5, "settle": 1.0}, abs=1e-3)


def test_a_span_says_what_became_of_the_task_and_no_secret(watcher, exporter):
    watcher.settled(Bury(lease(), "x"), Fate.ACCEPTED, 3.0, 4.0)
    task = exporter.get_finished_spans()[-1]
    assert task.status.status_code is StatusCode.ERROR
    assert task.attributes["shoal.outcome"] == "bury"
    assert (task.attributes["shoal.run"], task.attributes["shoal.task"]) == ("r", "t")
    assert "c4nary" not in task.to_json()


def test_what_is_never_settled_does_not_pile_up(watcher):
    for number in range(MOST_OPEN + 100):
        watcher.fetched(f"https://example.com/{number}", 0.0, 1.0, 200)
        watcher.took(range(number, number + 1), [lease()])
    assert len(watcher._fetches) == len(watcher._leases) == MOST_OPEN


def test_a_task_that_was_handed_back_unbegun_has_a_span_too(watcher, exporter):
    watcher.settled(Release(lease()), Fate.ACCEPTED, 3.0, 4.0)
    assert [span.name for span in exporter.get_finished_spans()] == ["settle", "task"]


async def test_a_step_is_timed_in_the_loop_and_in_a_thread():
    handled = []
    marks = WatchedMarks(Marks(make_file()), lambda *facts: handled.append(facts))

    async def step():
        return marks._marks.running()[0].number

    assert await marks.in_loop(7, step()) == 7
    with marks.in_thread(8):
        pass
    assert [number for number, _, _ in handled] == [7, 8]
    assert all(began <= ended for _, began, ended in handled)


def test_an_exporter_that_nobody_knows_is_refused(monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(InvalidSetting, match="'otlp' or 'console' or 'none'"):
        check_tracing()


def test_without_the_library_it_is_said_what_to_type(monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setattr(tracing, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"pip install 'shoal\[otel\]'"):
        check_tracing()
