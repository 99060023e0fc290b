"""Those who brought a task to a worker, and wait for what becomes of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from shoal.core.model import Done, Fate, Lease, Outcome, Task

Verdict = tuple[Outcome, Fate]


class Callers:
    """Tells each caller the outcome of its lease as soon as the queue has it."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, int], asyncio.Future[Verdict]] = {}
        self._follow: dict[tuple[str, int], Sequence[Task]] = {}

    def wait_for(self, lease: Lease) -> asyncio.Future[Verdict]:
        """Return what will be the outcome of a lease and its fate."""
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._waiting[lease.task_id, lease.token] = future
        return future

    def withhold(self, outcome: Outcome) -> Outcome:
        """Return an outcome as the queue is to have it: a call is for one page, and starts no crawl."""
        key = outcome.lease.task_id, outcome.lease.token
        if key not in self._waiting or not isinstance(outcome, Done):
            return outcome
        self._follow[key] = outcome.follow
        return replace(outcome, follow=())

    def tell(self, outcome: Outcome, fate: Fate) -> None:
        """Tell whoever waits for this lease; the links that its page has come with it."""
        key = outcome.lease.task_id, outcome.lease.token
        follow = self._follow.pop(key, ())
        future = self._waiting.pop(key, None)
        if future and not future.done():
            told = replace(outcome, follow=follow) if isinstance(outcome, Done) else outcome
            future.set_result((told, fate))
