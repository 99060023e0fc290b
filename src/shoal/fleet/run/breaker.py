"""Circuit breaker: decides when to stop starting workers, from the tasks that killed them; no clock."""

from collections.abc import Collection
from dataclasses import dataclass, field

MAX_KILLERS = 5  # different tasks in a row, with none completed in between


@dataclass(slots=True)
class Breaker:
    """Counts the tasks that killed their worker since a task was last completed, over the whole pool."""

    # Never cleared: at the end of a run only killers may be left that were tried before, among good tasks.
    _killers: set[str] = field(default_factory=set)
    _new: int = 0  # deaths in a row caused by a task not in `_killers` yet
    _done: int = 0

    def record_completed(self, done: int) -> None:
        """Record how many tasks the pool has completed so far; any increase resets the count."""
        if done > self._done:
            self._done, self._new = done, 0

    def record_death(self, killers: Collection[str]) -> None:
        """Record that these tasks killed their worker."""
        # When several steps were running, one of them killed the worker: a death counts once.
        self._new += not self._killers.issuperset(killers)
        self._killers.update(killers)

    @property
    def deaths(self) -> int:
        """How many workers were killed by different tasks since a task was last completed."""
        return self._new

    @property
    def reason(self) -> str | None:
        """Why no more workers should start; None while they may."""
        if self._new < MAX_KILLERS:
            return None
        return (
            f"CrashLoop: {self._new} different tasks in a row have killed their worker, and none "
            "was completed. The step, or a library it uses, does not work on this machine"
        )
