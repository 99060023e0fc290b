"""The observers of a worker, as its configuration asks for them."""

from contextlib import AsyncExitStack

from shoal.core.events import Event, Level
from shoal.worker.ipc.protocol import LoggedEvent, SupervisorChannel, WorkerConfig
from shoal.worker.telemetry.events import EventReporter, forward_logs
from shoal.worker.telemetry.observer import MetricsObserver, Observer
from shoal.worker.telemetry.tracing import Tracing, open_provider


def open_observers(
    stack: AsyncExitStack, config: WorkerConfig, channel: SupervisorChannel, metrics: MetricsObserver | None
) -> list[Observer]:
    """Return the observers for logs, metrics and traces; the stack flushes what is not sent yet."""
    observers: list[Observer] = [metrics] if metrics else []
    if config.log_level < Level.OFF:

        def send(event: Event) -> None:
            channel.send(LoggedEvent(event))

        reporter = EventReporter(send, config.log_level)
        forward_logs(reporter.forward, config.log_level)
        observers.append(reporter)
    if config.trace:
        provider = open_provider()
        stack.callback(provider.shutdown)
        observers.append(Tracing(provider.get_tracer("shoal"), config.run_id, config.worker_id))
    return observers
