"""What one page gave: kept aside until its step has finished."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from shoal.core.errors import InvalidItem
from shoal.core.model import Reject, Task
from shoal.scrape.items import Check, accepted, is_item, rejected
from shoal.scrape.node import Node

MOST = 1_000_000  # items and tasks of one page: far more than a page can hold, so a step without an end


Dropped = defaultdict[str, int]  # links that are not followed, by reason; a Counter takes longer to make


@dataclass(slots=True)
class Harvest:
    """The items, rejects and follow-up tasks of one page, and how many links were refused and why."""

    items: list[Any] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    follow: list[Task] = field(default_factory=list)
    dropped: Dropped = field(default_factory=lambda: defaultdict(int))


class Basket:
    """Sorts what a step yields into a harvest, whose follow-up tasks have not been judged yet."""

    __slots__ = ("_check", "_count", "_step", "harvest")

    def __init__(self, step: str, check: Check | None) -> None:
        self.harvest = Harvest()
        self._step, self._check = step, check
        self._count = 0

    def put(self, value: Any) -> None:
        """Take one thing that the step yielded; raises InvalidItem for what is neither item nor task."""
        if value is None:
            return
        self._count += 1
        if self._count > MOST:
            raise InvalidItem(None, f"step {self._step!r} yielded more than {MOST:,} times for one page")
        if isinstance(value, Task):
            self.harvest.follow.append(value)
        elif isinstance(value, Reject):
            self.harvest.rejects.append(rejected(value.data, value.reason))
        elif is_item(value):
            self._put_item(value)
        else:
            raise InvalidItem(value, f"step {self._step!r} yielded {_described(value)}")

    def _put_item(self, value: Any) -> None:
        item = accepted(value, self._check)
        if isinstance(item, Reject):
            self.harvest.rejects.append(item)
        else:
            self.harvest.items.append(item)


def _described(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, (list, tuple, set, frozenset)):
        return f"a {kind}; yield its elements one by one"
    if isinstance(value, Node):
        return "an element of the page; yield what is in it, such as {'title': node.text()}"
    return f"a value of type {kind}; yield an item, such as a dict or a dataclass, or page.follow(...)"
