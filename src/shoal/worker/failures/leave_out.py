"""Pages that are left out of a run without being failures: missing, forbidden, or skipped by a step."""

from collections.abc import MutableMapping

from shoal.core.errors import HttpStatus, RobotsDenied, SkipTask
from shoal.core.model import Task
from shoal.core.redact import Redact, bare_url
from shoal.core.secrets import hidden
from shoal.worker.counters import TaskCounts
from shoal.worker.left_out.missing import MISSING
from shoal.worker.left_out.reasons import ROBOTS
from shoal.worker.left_out.skipped import skip_reason


class LeftOutPages:
    """Counts the pages that one worker leaves out; `examples` holds a URL for each reason."""

    def __init__(self, examples: MutableMapping[str, str], redact: Redact) -> None:
        self._examples, self._redact = examples, redact
        self._skipped: set[str] = set()  # the reasons so far

    def leave_out(self, task: Task, error: Exception, counts: TaskCounts, *, count_missing: bool) -> bool:
        """Count a page that a step skips, or a link to a missing or forbidden one; return whether it is."""
        if isinstance(error, SkipTask):
            reason = skip_reason(self._redact(hidden(error.reason)), self._skipped)
            self._skipped.add(reason)
            self._count(reason, task.url, counts)
            return True
        if task.depth == 0 or task.url is None:
            return False
        match error:
            case HttpStatus(status=status) if status in MISSING and count_missing:
                counts.missing = counts.missing.with_one(task.url)
            case RobotsDenied():
                self._count(ROBOTS, task.url, counts)
            case _:
                return False
        return True

    def _count(self, reason: str, url: str | None, counts: TaskCounts) -> None:
        counts.drop({reason: 1})
        if url is not None:
            self._examples.setdefault(reason, bare_url(url))
