"""From sources to the queue: one stream of tasks, routed and counted, with a report of refusals."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any

from shoal.core.errors import InvalidTask
from shoal.core.model import Task
from shoal.core.tasks import iterate
from shoal.core.values import hint
from shoal.discover.routing import Routes
from shoal.discover.source import Found, Refusal, Source, shown

RESULTS_PER_YIELD = 500  # after which the event loop may run other tasks

OnRefusal = Callable[[Refusal], object]


class Feed:
    """Yields the tasks of sources: `await queue.enqueue(run.id, feed, on_invalid=feed.invalid)`.

    `steps` are the steps that a task may name; other tasks are refused, because no worker would claim them.
    """

    def __init__(
        self,
        *sources: Source,
        routes: Routes | None = None,
        steps: Collection[str] | None = None,
        on_refusal: OnRefusal = lambda refusal: None,
    ) -> None:
        self.passed = 0
        self.refused = 0
        self._sources, self._routes, self._steps, self._on_refusal = sources, routes, steps, on_refusal
        self._source: Source | None = None
        self._yielded = 0

    async def __aiter__(self) -> AsyncIterator[Task]:
        seen = 0
        for source in self._sources:
            self._source = source
            async for found in iterate(source):
                if seen % RESULTS_PER_YIELD == 0:
                    await asyncio.sleep(0)
                seen += 1
                if (task := self._route(found)) is not None:
                    self.passed += 1
                    self._yielded += 1
                    yield task

    def invalid(self, position: int, error: InvalidTask) -> None:
        """Record a task that the queue rejected."""
        self.passed -= 1
        # The queue checks a task before it takes the next one; if it ever does not, the position is unknown.
        known = self._source is not None and position == self._yielded - 1
        where = self._source.where if self._source and known else f"task {position + 1}"
        self._refuse(Refusal(where, shown(_text_of(error.task)), error.reason))

    def _route(self, found: Found) -> Task | None:
        if isinstance(found, Refusal):
            self._refuse(found)
            return None
        task = self._routes.apply(found) if self._routes else found
        if self._steps is None or task.step in self._steps:
            return task
        reason = f"no step is called {task.step!r}. {hint(task.step, self._steps)}"
        self._refuse(Refusal(self._source.where if self._source else "", shown(_text_of(task)), reason))
        return None

    def _refuse(self, refusal: Refusal) -> None:
        self.refused += 1
        self._on_refusal(refusal)


def _text_of(task: Task) -> str:
    payload: Any = task.payload
    return task.url or str(dict(payload) if isinstance(payload, Mapping) else payload)
