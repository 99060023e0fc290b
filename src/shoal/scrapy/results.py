"""What Scrapy's engine makes of one task, collected until the task is settled."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from itemadapter import ItemAdapter
from scrapy import Request

from shoal.core.errors import InvalidInput, NotNow
from shoal.core.failures import error_with_place
from shoal.core.model import SECOND, Reject, Task
from shoal.core.text import shorten
from shoal.scrape.requests import NO_WORKER, OwnStep
from shoal.scrapy.codec import item_as_json
from shoal.scrapy.values import describe

MAX_REJECTED = 2_000  # characters of an item that JSON does not have


def spider_closed() -> NotNow:
    """Return the error of a task whose spider is closed here: it is for other workers, or the next start."""
    return NotNow("the spider of its worker was closed", SECOND)


class TaskResults:
    """The items, requests and errors of one task, from every callback, middleware and pipeline it runs.

    It is complete when the engine has no request of the task any more: `wait` returns then.
    """

    def __init__(self, key: str, request: Request | None = None, step: OwnStep = NO_WORKER) -> None:
        """Collect the results of a request, which may be sent in the turn of its task."""
        self.key, self.request, self.step = key, request, step
        self.items: list[Any] = []  # as JSON
        self.objects: list[Any] = []  # the same items as pipelines have returned them
        self.rejects: list[Reject] = []
        self.follow: list[Task] = []
        self.fingerprints: set[bytes] = set()  # of the filtered requests in `follow`
        self.repeats: dict[bytes, int] = {}  # how often a request was yielded that is not filtered
        self.inlined = 0  # requests that cannot be stored, and run within the task
        self.errors: list[str] = []  # exceptions of callbacks, which Scrapy only logs
        self.failure: Exception | None = None  # the task cannot be completed
        self._pending = 1
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_over(self) -> bool:
        """Whether the task is complete or given up: what comes now no longer belongs to it."""
        return self._done.done()

    @property
    def is_empty(self) -> bool:
        """Whether the task has yielded nothing that would be stored."""
        return not (self.items or self.rejects or self.follow)

    def begin(self) -> None:
        """Wait for one more request or item."""
        self._pending += 1

    def end(self) -> None:
        """End one request or item; the last one completes the task."""
        self._pending -= 1
        if not self._pending and not self._done.done():
            self._done.set_result(None)

    def give_up(self) -> None:
        """End the task without a result: `wait` raises NotNow."""
        if not self._done.done():
            self._done.set_exception(spider_closed())

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait for a host, which takes no time of the task; if that cannot be now, the task is for later."""
        try:
            with self.step.suspend():
                yield
        except NotNow as error:
            self.failure = error
            raise

    async def wait(self) -> None:
        """Wait until the task is complete."""
        await self._done

    def add_item(self, item: Any) -> None:
        """Add an item that has passed the pipelines; one that JSON does not have becomes a reject."""
        if not ItemAdapter.is_item(item):
            self.add_reject(item, f"{describe(item)} is no item: yield a dict, an Item or a dataclass")
            return
        try:
            self.items.append(item_as_json(dict(_serialize(item))))
        except InvalidInput as error:
            self.add_reject(item, str(error))
        except Exception as error:  # of a serializer
            self.add_reject(item, error_with_place(error))
        else:
            self.objects.append(item)

    def add_reject(self, item: Any, reason: str) -> None:
        """Add an item that a pipeline has dropped or failed on."""
        try:
            data = item_as_json(item)
        except InvalidInput:
            data = shorten(repr(item), MAX_REJECTED)
        self.rejects.append(Reject(data=data, reason=reason))


def _serialize(item: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an item, with their values as its feeds have them."""
    fields = ItemAdapter(item)
    for name, value in fields.items():
        serializer = fields.get_field_meta(name).get("serializer")
        yield name, serializer(value) if serializer else value


def stats_as_json(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Return Scrapy's statistics of one worker as those of runs are stored; rates cannot be added."""
    found: dict[str, Any] = {}
    for name, value in stats.items():
        if isinstance(value, datetime):
            found[name] = value.isoformat()
        elif isinstance(value, str | int | float) and not name.endswith("_per_minute"):
            found[name] = value
    return found


# The task that the running code belongs to. All that the engine starts for a request copies the context in
# which the scheduler has handed it out.
CURRENT: ContextVar[TaskResults | None] = ContextVar("the results of the current task", default=None)


def current_results() -> TaskResults | None:
    """Return the results of the task that this code runs for; None outside of tasks, and after their end."""
    results = CURRENT.get()
    return None if results is None or results.is_over else results
