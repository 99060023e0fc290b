"""Counting for metrics while a worker works."""

from collections.abc import Collection

from shoal.core.model import Bury, Done, Fate, Outcome, Release, Retry
from shoal.worker.measures import Measures
from shoal.worker.watching import Watcher

OTHER = "other"
_NAMES: dict[type, str] = {Done: "done", Retry: "retry", Bury: "bury", Release: "release"}


class Measuring(Watcher):
    """Counts outcomes by step, and fetches by how long they took."""

    def __init__(self, steps: Collection[str]) -> None:
        self.measures = Measures()
        self._steps = frozenset(steps)

    def settled(self, outcome: Outcome, fate: Fate, began: float, ended: float) -> None:
        name = "stale" if fate is Fate.STALE else _NAMES[type(outcome)]
        # A producer may write any step into a task; a label must be one of few.
        step = outcome.lease.task.step
        self.measures.task(name, step if step in self._steps else OTHER)

    def fetched(self, url: str, began: float, ended: float, status: int | None) -> None:
        self.measures.fetched(ended - began, status)
