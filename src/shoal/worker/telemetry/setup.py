"""The observers of a worker, as its configuration asks for them."""

from collections.abc import Callable, Collection
from contextlib import ExitStack

from shoal.core.events import Event, Level
from shoal.core.model import Lease
from shoal.fetch.contract import Fetcher
from shoal.queue.contract import Queue
from shoal.worker.counters import MetricCounters
from shoal.worker.ipc.protocol import LoggedEvent, SupervisorChannel, WorkerConfig
from shoal.worker.ipc.step_markers import StepMarkers
from shoal.worker.telemetry.events import EventReporter, forward_logs
from shoal.worker.telemetry.observer import (
    MetricsObserver,
    ObservedStepMarkers,
    Observer,
    Observers,
    observe_fetcher,
    observe_queue,
)
from shoal.worker.telemetry.tracing import Tracing, open_provider


class WorkerTelemetry:
    """Wraps what a worker works with, as far as its configuration asks for logs, metrics or traces."""

    def __init__(self, config: WorkerConfig, channel: SupervisorChannel, steps: Collection[str]) -> None:
        self._closing = ExitStack()
        self._tracing = self._open_tracing(config, channel) if config.trace else None
        self._metrics = MetricsObserver(steps) if config.measure else None
        self._events = self._open_log(config, channel) if config.log_level < Level.OFF else None
        observers = [one for one in (self._events, self._metrics, self._tracing) if one]
        self._observer: Observer | None = Observers(observers) if observers else None

    @property
    def measures(self) -> MetricCounters | None:
        """The counters for metrics."""
        return self._metrics.measures if self._metrics else None

    def observe_queue(self, queue: Queue) -> Queue:
        """Return the queue for the worker."""
        return observe_queue(queue, self._observer)

    @property
    def on_begin(self) -> Callable[[Lease], None] | None:
        """The callback for the start of a task."""
        return self._events.on_begin if self._events else None

    def observe_fetcher(self, fetcher: Fetcher) -> Fetcher:
        """Return the fetcher for the worker."""
        is_observed = self._metrics or self._tracing
        return observe_fetcher(fetcher, self._observer if is_observed else None)

    def observe_markers(self, markers: StepMarkers) -> StepMarkers:
        """Return the step markers for the worker."""
        return ObservedStepMarkers(markers, self._tracing.on_step_end) if self._tracing else markers

    def close(self) -> None:
        """Flush what is not sent yet."""
        self._closing.close()

    def _open_log(self, config: WorkerConfig, channel: SupervisorChannel) -> EventReporter:
        def send(event: Event) -> None:
            channel.send(LoggedEvent(event))

        reporter = EventReporter(send, config.log_level)
        forward_logs(reporter.forward, config.log_level)
        return reporter

    def _open_tracing(self, config: WorkerConfig, channel: SupervisorChannel) -> Tracing:
        provider = open_provider()
        self._closing.callback(provider.shutdown)
        tracing = Tracing(provider.get_tracer("shoal"), config.run_id, config.worker_id)
        channel.on_claimed = tracing.record_numbers
        return tracing
