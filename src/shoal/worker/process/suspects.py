"""Finds the task that ends its workers while no step runs, as by a response that crashes a library. Pure.

Each task that was in progress at such a death, or had ended and was not settled yet, is a suspect. The next
workers run it beside a quarter as many tasks, until it is alone: then it is charged. Tasks that did nothing
are only slowed down, and never charged.
"""

from collections.abc import Collection, Mapping, Sequence

SHARE = 4
MAX_SUSPECTS = 10_000  # that are remembered, the newest


class Suspects:
    """The suspects of a pool, and how many tasks a worker may have in progress while it holds one."""

    def __init__(self) -> None:
        self._limits: dict[str, int] = {}  # by task, the newest last

    @property
    def limits(self) -> dict[str, int]:
        """How many tasks may be in progress beside each suspect, it included."""
        return dict(self._limits)

    def add(self, task_ids: Collection[str]) -> int:
        """Record the tasks in progress at a death; return how many may be in progress from now on."""
        limit = max(1, len(task_ids) // SHARE)
        for task_id in task_ids:
            # Moved to the end, because the oldest are forgotten.
            self._limits[task_id] = min(limit, self._limits.pop(task_id, limit))
        for task_id in list(self._limits)[:-MAX_SUSPECTS]:
            del self._limits[task_id]
        return limit


def is_proven(in_progress: Sequence[str], limits: Mapping[str, int]) -> bool:
    """Return whether the only task in progress is one that had to run alone."""
    return len(in_progress) == 1 and limits.get(in_progress[0]) == 1
