"""The observers of a worker, as its configuration asks for them."""

from collections.abc import Collection
from contextlib import ExitStack

from shoal.core.events import Event, Level
from shoal.worker.counters import MetricCounters
from shoal.worker.ipc.protocol import LoggedEvent, SupervisorChannel, WorkerConfig
from shoal.worker.telemetry.events import EventReporter, forward_logs
from shoal.worker.telemetry.observer import MetricsObserver, Observer
from shoal.worker.telemetry.tracing import Tracing, open_provider


class WorkerTelemetry:
    """Observes a worker as far as its configuration asks for logs, metrics or traces."""

    def __init__(self, config: WorkerConfig, channel: SupervisorChannel, steps: Collection[str]) -> None:
        self._closing = ExitStack()
        self.observers: list[Observer] = []
        self.measures: MetricCounters | None = None  # the counters for metrics
        if config.log_level < Level.OFF:
            self.observers.append(_open_log(config, channel))
        if config.measure:
            metrics = MetricsObserver(steps)
            self.measures = metrics.measures
            self.observers.append(metrics)
        if config.trace:
            provider = open_provider()
            self._closing.callback(provider.shutdown)
            self.observers.append(Tracing(provider.get_tracer("shoal"), config.run_id, config.worker_id))

    def close(self) -> None:
        """Flush what is not sent yet."""
        self._closing.close()


def _open_log(config: WorkerConfig, channel: SupervisorChannel) -> EventReporter:
    def send(event: Event) -> None:
        channel.send(LoggedEvent(event))

    reporter = EventReporter(send, config.log_level)
    forward_logs(reporter.forward, config.log_level)
    return reporter
