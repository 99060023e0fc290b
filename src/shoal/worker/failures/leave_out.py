"""Pages that are left out of a run without being failures: missing, forbidden, or skipped by a step."""

from collections.abc import MutableMapping

from shoal.core.errors import HttpStatus, RobotsDenied, SkipTask
from shoal.core.model import Task
from shoal.core.redact import Redact, bare_url
from shoal.core.secrets import hidden
from shoal.worker.counters import WorkerCounters
from shoal.worker.left_out.missing import MISSING
from shoal.worker.left_out.reasons import ROBOTS
from shoal.worker.left_out.skipped import skip_reason


class LeftOutPages:
    """Counts the pages that one worker leaves out; `examples` holds a URL for each reason."""

    def __init__(self, tally: WorkerCounters, examples: MutableMapping[str, str], redact: Redact) -> None:
        self._tally, self._examples, self._redact = tally, examples, redact

    def leave_out(self, task: Task, error: Exception, *, count_missing: bool) -> bool:
        """Count a page that a step skips, or a link to a missing or forbidden one; return whether it is."""
        if isinstance(error, SkipTask):
            self._count(skip_reason(self._redact(hidden(error.reason)), self._tally.dropped), task.url)
            return True
        if task.depth == 0 or task.url is None:
            return False
        match error:
            case HttpStatus(status=status) if status in MISSING and count_missing:
                self._tally.missing = self._tally.missing.with_one(task.url)
            case RobotsDenied():
                self._count(ROBOTS, task.url)
            case _:
                return False
        return True

    def _count(self, reason: str, url: str | None) -> None:
        self._tally.dropped[reason] = self._tally.dropped.get(reason, 0) + 1
        if url is not None:
            self._examples.setdefault(reason, bare_url(url))
