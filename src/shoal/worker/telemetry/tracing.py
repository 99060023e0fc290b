"""OpenTelemetry traces: a span for each task, and in it one each for fetching, handling and settling.

Spans are written when a task is settled, from times that were recorded before.
"""

import os
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.core.errors import InvalidInput
from shoal.core.model import Fate, Lease, Outcome
from shoal.core.redact import bare_url
from shoal.core.values import read_choice
from shoal.registry.extras import install_command
from shoal.worker.prefetch import LeaseKey, host_of, key_of
from shoal.worker.telemetry.observer import Observer

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

EXPORTERS = ("otlp", "console", "none")
MAX_OPEN = 10_000  # recorded times whose task is not settled yet


class Span(NamedTuple):
    """A start and an end, by the monotonic clock."""

    began: float
    ended: float


class Tracing(Observer):
    """Writes the spans of every task that is settled."""

    def __init__(self, tracer: "Tracer", run_id: str, worker_id: str) -> None:
        self._tracer = tracer
        self._common = {"shoal.run": run_id, "shoal.worker": worker_id}
        self._fetches: dict[str, tuple[Span, int | None]] = {}  # by URL
        self._handled: dict[LeaseKey, Span] = {}
        self._offset = time.time() - time.monotonic()

    def on_fetch(self, url: str, began: float, ended: float, status: int | None) -> None:
        self._fetches[url] = Span(began, ended), status
        _trim(self._fetches)

    def on_step_end(self, lease: Lease, began: float, ended: float) -> None:
        self._handled[key_of(lease)] = Span(began, ended)
        _trim(self._handled)

    def on_settle(self, outcome: Outcome, fate: Fate, began: float, ended: float) -> None:
        lease = outcome.lease
        fetch, status = self._fetches.pop(lease.task.url or "", (None, None))
        handle = self._handled.pop(key_of(lease), None)
        parts = {"fetch": fetch, "handle": handle, "settle": Span(began, ended)}
        known = {name: span for name, span in parts.items() if span}
        self._write(lease, type(outcome).__name__.lower(), fate, status, known)

    def _write(
        self, lease: Lease, outcome: str, fate: Fate, status: int | None, parts: dict[str, Span]
    ) -> None:
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        whole = Span(min(span.began for span in parts.values()), max(span.ended for span in parts.values()))
        about = self._common | _attributes(lease) | {"shoal.outcome": outcome, "shoal.fate": fate.value}
        if status is not None:
            about["http.response.status_code"] = status
        task = self._tracer.start_span("task", attributes=about, start_time=self._to_nanoseconds(whole.began))
        if outcome in ("retry", "bury"):
            task.set_status(Status(StatusCode.ERROR))
        context = set_span_in_context(task)
        for name, span in parts.items():
            part = self._tracer.start_span(name, context=context, start_time=self._to_nanoseconds(span.began))
            part.end(self._to_nanoseconds(span.ended))
        task.end(self._to_nanoseconds(whole.ended))

    def _to_nanoseconds(self, at: float) -> int:
        return int((at + self._offset) * 1e9)


def check_tracing() -> None:
    """Raise an error if traces cannot be written, before any worker is started."""
    kind = _exporter_kind()
    if not (find_spec("opentelemetry") and find_spec("opentelemetry.sdk")):
        raise _missing_library()
    if kind == "otlp":
        _import_otlp()


def open_provider() -> "TracerProvider":
    """Return the span provider that the OTEL_* environment variables configure; `shutdown` flushes it."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

    name = os.environ.get("OTEL_SERVICE_NAME", "shoal")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    kind = _exporter_kind()
    if kind == "otlp":
        provider.add_span_processor(BatchSpanProcessor(_import_otlp()()))
    elif kind == "console":
        exporter = ConsoleSpanExporter(formatter=lambda span: f"{span.to_json(indent=None)}\n")
        provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def _exporter_kind() -> str:
    return read_choice("OTEL_TRACES_EXPORTER", os.environ.get("OTEL_TRACES_EXPORTER", "otlp"), EXPORTERS)


def _missing_library() -> InvalidInput:
    return InvalidInput(f"Traces need their library. Run: {install_command('otel')}")


def _import_otlp() -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError as error:
        raise _missing_library() from error
    return OTLPSpanExporter


def _attributes(lease: Lease) -> dict[str, Any]:
    about = {"shoal.task": lease.task_id, "shoal.step": lease.task.step, "shoal.attempt": lease.attempt}
    url = lease.task.url
    return about | ({"url.full": bare_url(url), "server.address": host_of(lease)} if url else {})


def _trim(times: dict[Any, Any]) -> None:
    # Tasks that are never settled here, such as those released before they started, must not pile up.
    while len(times) > MAX_OPEN:
        del times[next(iter(times))]
