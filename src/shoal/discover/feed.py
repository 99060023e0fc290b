"""From sources to the queue: one stream of tasks, routed and counted, and an account of what was refused."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection

from shoal.core.errors import InvalidTask
from shoal.core.model import Task
from shoal.core.values import hint
from shoal.discover.routing import Routes
from shoal.discover.source import Found, Refusal, Source, each, shown

BREATH = 500  # findings after which others may run

OnRefusal = Callable[[Refusal], object]


class Feed:
    """Passes on what sources find: `await queue.enqueue(run.id, feed, on_invalid=feed.invalid)`.

    `steps` are the steps that a task may name; others are refused, for no worker would ever take them.
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
        self._handed = 0

    async def __aiter__(self) -> AsyncIterator[Task]:
        seen = 0
        for source in self._sources:
            self._source = source
            async for found in each(source):
                if seen % BREATH == 0:
                    await asyncio.sleep(0)
                seen += 1
                if (task := self._admitted(found)) is not None:
                    self.passed += 1
                    self._handed += 1
                    yield task

    def invalid(self, position: int, error: InvalidTask) -> None:
        """Take note of a task that the queue refused after all."""
        self.passed -= 1
        # The queue checks a task before it asks for the next; should it ever not, the place is not known.
        known = self._source is not None and position == self._handed - 1
        where = self._source.where if self._source and known else f"task {position + 1}"
        self._refuse(Refusal(where, shown(_text_of(error.task)), error.reason))

    def _admitted(self, found: Found) -> Task | None:
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
    return task.url or str(dict(task.payload))
