"""Callers that sent a task to a worker and wait for its outcome."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from shoal.core.model import Done, Fate, Lease, Outcome, Task

Verdict = tuple[Outcome, Fate]


class WaitingCallers:
    """Passes the outcome of each lease to its caller as soon as the queue has settled it."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, int], asyncio.Future[Verdict]] = {}
        self._follow: dict[tuple[str, int], Sequence[Task]] = {}

    def wait_for(self, lease: Lease) -> asyncio.Future[Verdict]:
        """Return the future outcome of a lease and its fate."""
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._waiting[lease.task_id, lease.token] = future
        return future

    def withhold_links(self, outcome: Outcome) -> Outcome:
        """Return an outcome as the queue gets it: a call is for one page, and starts no crawl."""
        key = outcome.lease.task_id, outcome.lease.token
        if key not in self._waiting or not isinstance(outcome, Done):
            return outcome
        self._follow[key] = outcome.follow
        return replace(outcome, follow=())

    def resolve(self, outcome: Outcome, fate: Fate) -> None:
        """Pass an outcome to the caller of its lease, if there is one, together with the page's links."""
        key = outcome.lease.task_id, outcome.lease.token
        follow = self._follow.pop(key, ())
        future = self._waiting.pop(key, None)
        if future and not future.done():
            whole = replace(outcome, follow=follow) if isinstance(outcome, Done) else outcome
            future.set_result((whole, fate))
