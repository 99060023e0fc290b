"""OpenTelemetry traces: a span for each task, and in it one each for fetching, handling and settling.

Spans are written when a task is settled, from moments that were noted on its way.
"""

import os
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.core.errors import InvalidInput
from shoal.core.model import Fate, Lease, Outcome
from shoal.core.redact import bare_url
from shoal.core.values import read_choice
from shoal.worker.stock import host_of
from shoal.worker.watching import Watcher

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

EXPORTERS = ("otlp", "console", "none")
MOST_OPEN = 10_000  # moments that wait for their task to be settled
_NEED = "Traces need their library. Run: pip install 'shoal[otel]'"


class Span(NamedTuple):
    """A beginning and an end, by the monotonic clock."""

    began: float
    ended: float


class Tracing(Watcher):
    """Writes the spans of every task that is settled."""

    def __init__(self, tracer: "Tracer", run_id: str, worker_id: str) -> None:
        self._tracer = tracer
        self._common = {"shoal.run": run_id, "shoal.worker": worker_id}
        self._fetches: dict[str, tuple[Span, int | None]] = {}  # by URL
        self._handled: dict[tuple[str, int], Span] = {}  # by task and token
        self._leases: dict[int, Lease] = {}  # by number
        self._offset = time.time() - time.monotonic()

    def took(self, numbers: range, leases: Sequence[Lease]) -> None:
        """Remember which number is which lease."""
        self._leases.update(zip(numbers, leases, strict=True))
        _bound(self._leases)

    def fetched(self, url: str, began: float, ended: float, status: int | None) -> None:
        self._fetches[url] = Span(began, ended), status
        _bound(self._fetches)

    def handled(self, number: int, began: float, ended: float) -> None:
        lease = self._leases.pop(number, None)
        if lease:
            self._handled[lease.task_id, lease.token] = Span(began, ended)
            _bound(self._handled)

    def settled(self, outcome: Outcome, fate: Fate, began: float, ended: float) -> None:
        lease = outcome.lease
        fetch, status = self._fetches.pop(lease.task.url or "", (None, None))
        handle = self._handled.pop((lease.task_id, lease.token), None)
        parts = {"fetch": fetch, "handle": handle, "settle": Span(began, ended)}
        known = {name: span for name, span in parts.items() if span}
        self._write(lease, type(outcome).__name__.lower(), fate, status, known)

    def _write(
        self, lease: Lease, outcome: str, fate: Fate, status: int | None, parts: dict[str, Span]
    ) -> None:
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        whole = Span(min(span.began for span in parts.values()), max(span.ended for span in parts.values()))
        about = self._common | _about(lease) | {"shoal.outcome": outcome, "shoal.fate": fate.value}
        if status is not None:
            about["http.response.status_code"] = status
        task = self._tracer.start_span("task", attributes=about, start_time=self._moment(whole.began))
        if outcome in ("retry", "bury"):
            task.set_status(Status(StatusCode.ERROR))
        context = set_span_in_context(task)
        for name, span in parts.items():
            part = self._tracer.start_span(name, context=context, start_time=self._moment(span.began))
            part.end(self._moment(span.ended))
        task.end(self._moment(whole.ended))

    def _moment(self, at: float) -> int:
        return int((at + self._offset) * 1e9)


def check_tracing() -> None:
    """Raise what stands in the way of traces, before any worker is started."""
    kind = _exporter()
    if not (find_spec("opentelemetry") and find_spec("opentelemetry.sdk")):
        raise InvalidInput(_NEED)
    if kind == "otlp":
        _otlp()


def open_provider() -> "TracerProvider":
    """Return where spans go, as the OTEL_* variables of the environment say; `shutdown` sends the rest."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

    name = os.environ.get("OTEL_SERVICE_NAME", "shoal")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    kind = _exporter()
    if kind == "otlp":
        provider.add_span_processor(BatchSpanProcessor(_otlp()()))
    elif kind == "console":
        line = ConsoleSpanExporter(formatter=lambda span: f"{span.to_json(indent=None)}\n")
        provider.add_span_processor(SimpleSpanProcessor(line))
    return provider


def _exporter() -> str:
    return read_choice("OTEL_TRACES_EXPORTER", os.environ.get("OTEL_TRACES_EXPORTER", "otlp"), EXPORTERS)


def _otlp() -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError as error:
        raise InvalidInput(_NEED) from error
    return OTLPSpanExporter


def _about(lease: Lease) -> dict[str, Any]:
    about = {"shoal.task": lease.task_id, "shoal.step": lease.task.step, "shoal.attempt": lease.attempt}
    url = lease.task.url
    return about | ({"url.full": bare_url(url), "server.address": host_of(lease)} if url else {})


def _bound(moments: dict[Any, Any]) -> None:
    # What is never settled here, such as a task that was handed back before it began, must not pile up.
    while len(moments) > MOST_OPEN:
        del moments[next(iter(moments))]
