"""Counters for metrics of a worker."""

from collections.abc import Collection

from shoal.core.model import Bury, Done, Fate, Outcome, Release, Retry
from shoal.worker.counters import MetricCounters
from shoal.worker.telemetry.observer import Observer

OTHER = "other"
_NAMES: dict[type, str] = {Done: "done", Retry: "retry", Bury: "bury", Release: "release"}


class MetricsObserver(Observer):
    """Counts outcomes by step, and fetches by duration."""

    def __init__(self, steps: Collection[str]) -> None:
        self.measures = MetricCounters()
        self._steps = frozenset(steps)

    def on_settle(self, outcome: Outcome, fate: Fate, began: float, ended: float) -> None:
        name = "stale" if fate is Fate.STALE else _NAMES[type(outcome)]
        # A producer may write any step into a task; a label needs few distinct values.
        step = outcome.lease.task.step
        self.measures.count_task(name, step if step in self._steps else OTHER)

    def on_fetch(self, url: str, began: float, ended: float, status: int | None) -> None:
        self.measures.count_fetch(ended - began, status)
