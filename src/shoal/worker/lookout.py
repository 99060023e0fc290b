"""Who looks on while a worker works, as its order says."""

from collections.abc import Callable, Collection
from contextlib import ExitStack

from shoal.core.events import Event, Level
from shoal.core.model import Lease
from shoal.fetch.contract import Fetcher
from shoal.queue.contract import Queue
from shoal.worker.line import Line, Order, Told
from shoal.worker.marks import Marks
from shoal.worker.measures import Measures
from shoal.worker.measuring import Measuring
from shoal.worker.telling import Teller, overhear
from shoal.worker.tracing import Tracing, open_provider
from shoal.worker.watching import Everyone, WatchedMarks, Watcher, watched_fetcher, watched_queue


class Lookout:
    """Hands a worker what it works with, watched as far as its order asks for it."""

    def __init__(self, order: Order, line: Line, steps: Collection[str]) -> None:
        self._closing = ExitStack()
        self._tracing = self._open_tracing(order, line) if order.trace else None
        self._measuring = Measuring(steps) if order.measure else None
        self._teller = self._open_log(order, line) if order.log_level < Level.OFF else None
        watchers = [one for one in (self._teller, self._measuring, self._tracing) if one]
        self._watcher: Watcher | None = Everyone(watchers) if watchers else None

    @property
    def measures(self) -> Measures | None:
        """What is counted for metrics."""
        return self._measuring.measures if self._measuring else None

    def queue(self, queue: Queue) -> Queue:
        """Return the queue that the worker is to have."""
        return watched_queue(queue, self._watcher)

    @property
    def on_begin(self) -> Callable[[Lease], None] | None:
        """Who is told that the worker begins with a task."""
        return self._teller.begun if self._teller else None

    def fetcher(self, fetcher: Fetcher) -> Fetcher:
        """Return the fetcher that the worker is to have."""
        is_looked_at = self._measuring or self._tracing
        return watched_fetcher(fetcher, self._watcher if is_looked_at else None)

    def marks(self, marks: Marks) -> Marks:
        """Return the marks that the worker is to have."""
        return WatchedMarks(marks, self._tracing.handled) if self._tracing else marks

    def close(self) -> None:
        """Send what is on its way."""
        self._closing.close()

    def _open_log(self, order: Order, line: Line) -> Teller:
        def tell(event: Event) -> None:
            line.tell(Told(event))

        teller = Teller(tell, order.log_level)
        overhear(teller.heard, order.log_level)
        return teller

    def _open_tracing(self, order: Order, line: Line) -> Tracing:
        provider = open_provider()
        self._closing.callback(provider.shutdown)
        tracing = Tracing(provider.get_tracer("shoal"), order.run_id, order.worker_id)
        line.on_took = tracing.took
        return tracing
