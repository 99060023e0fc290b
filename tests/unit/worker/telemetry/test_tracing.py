"""A span for each task, and in it one each for fetching, handling and settling."""

import re

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.model import Bury, Done, Fate, Release, Task
from shoal.registry.extras import install_command
from shoal.worker.telemetry import tracing
from shoal.worker.telemetry.tracing import MAX_OPEN, Tracing, check_tracing
from tests.unit.builders import make_lease

URL = "https://user@example.com/a?token=c4nary"


def lease(token=1):
    task = Task(url=URL, step="page")
    return make_lease(task, token=token)


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def observer(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracing(provider.get_tracer("test"), "r", "w")


def test_a_task_has_a_span_with_its_parts_in_it(observer, exporter):
    observer.on_fetch(URL, 1.0, 2.0, 200)
    observer.on_step_end(lease(), 2.0, 2.5)
    observer.on_settle(Done(lease()), Fate.ACCEPTED, 3.0, 4.0)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"task", "fetch", "handle", "settle"}
    assert {span.parent.span_id for name, span in spans.items() if name != "task"} == {
        spans["task"].context.span_id
    }
    lasted = {name: (span.end_time - span.start_time) / 1e9 for name, span in spans.items()}
    assert lasted == pytest.approx({"task": 3.0, "fetch": 1.0, "handle": 0.5, "settle": 1.0}, abs=1e-3)


def test_a_span_has_the_outcome_of_the_task_and_no_secret(observer, exporter):
    observer.on_settle(Bury(lease(), "x"), Fate.ACCEPTED, 3.0, 4.0)
    task = exporter.get_finished_spans()[-1]
    assert task.status.status_code is StatusCode.ERROR
    assert task.attributes["shoal.outcome"] == "bury"
    assert (task.attributes["shoal.run"], task.attributes["shoal.task"]) == ("r", "t")
    assert "c4nary" not in task.to_json()


def test_tasks_that_are_never_settled_do_not_pile_up(observer):
    for number in range(MAX_OPEN + 100):
        observer.on_fetch(f"https://example.com/{number}", 0.0, 1.0, 200)
        observer.on_step_end(lease(number), 0.0, 1.0)
    assert len(observer._fetches) == len(observer._handled) == MAX_OPEN


def test_a_task_that_was_released_before_its_start_has_a_span_too(observer, exporter):
    observer.on_settle(Release(lease()), Fate.ACCEPTED, 3.0, 4.0)
    assert [span.name for span in exporter.get_finished_spans()] == ["settle", "task"]


def test_an_unknown_exporter_is_rejected(monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(InvalidSetting, match="'otlp' or 'console' or 'none'"):
        check_tracing()


def test_without_the_library_the_error_says_what_to_type(monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setattr(tracing, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=re.escape(install_command("otel"))):
        check_tracing()
