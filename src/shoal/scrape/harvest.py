"""The results of one page, buffered until its step has finished."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from shoal.core.errors import InvalidItem, InvalidTask
from shoal.core.model import Reject, Task
from shoal.scrape.files import Download, HasDownloads, check_not_download, item_task, read_plan
from shoal.scrape.items import Check, is_item, make_reject, take_downloads, validate_item
from shoal.scrape.links.filter import Dropped
from shoal.scrape.node import Node

Route = Callable[[Task], Task]
MAX_RESULTS = 1_000_000  # items and tasks of one page: no page holds as many, so the step never ends


class Harvest(msgspec.Struct):
    """The items, rejects and follow-up tasks of one page, and the number of skipped links by reason."""

    items: list[Any] = msgspec.field(default_factory=list)
    rejects: list[Reject] = msgspec.field(default_factory=list)
    follow: list[Task] = msgspec.field(default_factory=list)
    dropped: Dropped = msgspec.field(default_factory=lambda: defaultdict(int))
    downloads: list[Task] = msgspec.field(default_factory=list)  # to which the rules for links do not apply

    @property
    def waiting(self) -> list[Any]:
        """The items that wait for their files, with None in the place of each file; for tests."""
        plans = (read_plan(task) for task in self.downloads)
        return [msgspec.json.decode(plan.item) for plan in plans if plan.item is not None]


class ResultCollector:
    """Sorts the values that a step yields into a harvest; its follow-up tasks are not filtered yet.

    `route` returns a follow-up task with the name of its step; it raises InvalidTask.
    """

    __slots__ = ("_check", "_count", "_route", "_step", "harvest")

    def __init__(self, step: str, check: Check | None, route: Route) -> None:
        self.harvest = Harvest()
        self._step, self._check, self._route = step, check, route
        self._count = 0

    def add(self, value: Any) -> None:
        """Add a yielded value; raises InvalidItem or InvalidTask if it cannot be stored."""
        if value is None:
            return
        self._count += 1
        if self._count > MAX_RESULTS:
            raise InvalidItem(
                None, f"step {self._step!r} yielded more than {MAX_RESULTS:,} times for one page"
            )
        if isinstance(value, Task):
            if value.payload:
                check_not_download(value)
                _check_payload(value)
            self.harvest.follow.append(self._route(value))
        elif isinstance(value, Reject):
            self.harvest.rejects.append(make_reject(value.data, value.reason))
        elif is_item(value):
            self._add_item(value)
        elif isinstance(value, Download):
            self.harvest.downloads.append(self._route(value.as_task()))
        else:
            raise InvalidItem(value, f"step {self._step!r} yielded {_describe(value)}")

    def add_all(self, values: Iterable[Any]) -> None:
        """Add several values."""
        for value in values:
            self.add(value)

    def _add_item(self, value: Any) -> None:
        try:
            item = validate_item(value, self._check)
        except HasDownloads:
            self._add_with_files(value)
            return
        if isinstance(item, Reject):
            self.harvest.rejects.append(item)
        else:
            self.harvest.items.append(item)

    def _add_with_files(self, value: Any) -> None:
        """Add the download of an item's first file; the item is validated when it has all of them."""
        taken = take_downloads(value)
        if isinstance(taken, Reject):
            self.harvest.rejects.append(taken)
        else:
            try:
                task = item_task(*taken, number=len(self.harvest.downloads))
            except InvalidItem as error:  # the other items of the page are as good as ever
                self.harvest.rejects.append(make_reject(taken[0], error.reason))
            else:
                self.harvest.downloads.append(task)


def _check_payload(task: Task) -> None:
    # The queue checks it too, but when the line that made the task is no longer known.
    try:
        _encode(dict(task.payload))
    except (TypeError, ValueError, UnicodeError, RecursionError) as error:
        raise InvalidTask(task, f"payload is not JSON: {error}") from error


_encode = msgspec.json.Encoder().encode


def _describe(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, (list, tuple, set, frozenset)):
        return f"a {kind}; yield its elements one by one"
    if isinstance(value, Node):
        return "an element of the page; yield what is in it, such as {'title': node.text()}"
    return f"a value of type {kind}; yield an item, such as a dict or a dataclass, or page.follow(...)"
