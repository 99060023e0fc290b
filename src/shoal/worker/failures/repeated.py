"""Remembers pages that failed in a step, to recognize those that are fetched again unchanged."""

from shoal.core.http import Response
from shoal.core.model import Lease
from shoal.fetch.singleflight import LruCache

MAX_TASKS = 10_000


class RepeatedFailures:
    """Remembers how the tasks of one worker failed; another worker does not know, and tries once more."""

    def __init__(self) -> None:
        self._failures: LruCache[tuple[str, int]] = LruCache(MAX_TASKS)

    def is_repeated(self, lease: Lease, failure: str, response: Response | None) -> bool:
        """Return whether the last attempt failed in the same way on the same page; remember this one."""
        if response is None:
            return False
        this = failure, hash(response.body)
        before = self._failures.get(lease.task_id)
        self._failures.put(lease.task_id, this)
        return before == this
