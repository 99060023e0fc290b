"""When to stop starting workers: decided by what killed the last ones, without a clock."""

from collections.abc import Collection
from dataclasses import dataclass, field

MOST_KILLERS = 5  # different tasks in a row, with none completed in between


@dataclass(slots=True)
class Breaker:
    """Counts the tasks that killed their worker since the last one that was completed, in a whole crew."""

    # Never cleared: at the end of a run only those may be left that were tried among good ones before.
    _killers: set[str] = field(default_factory=set)
    _new: int = 0  # deaths in a row with a killer that is not known yet
    _done: int = 0

    def completed(self, done: int) -> None:
        """Take in how many tasks the crew has completed so far; each new one begins the count again."""
        if done > self._done:
            self._done, self._new = done, 0

    def died(self, killers: Collection[str]) -> None:
        """Take in that these tasks have killed their worker."""
        # When several steps were running, one of them did it: a death counts once.
        self._new += not self._killers.issuperset(killers)
        self._killers.update(killers)

    @property
    def deaths(self) -> int:
        """How many workers were killed by different tasks since one was completed."""
        return self._new

    @property
    def reason(self) -> str | None:
        """Why no worker should be started any more, None while there is hope."""
        if self._new < MOST_KILLERS:
            return None
        return (
            f"CrashLoop: {self._new} different tasks in a row have killed their worker, and none "
            "was completed. The step, or a library it uses, does not work on this machine"
        )
