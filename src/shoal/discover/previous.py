"""Seeds from a previous run: its dead tasks or its items."""

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Any

from msgspec.structs import replace

from shoal.core.errors import InvalidUrl
from shoal.core.model import NOTHING, ZERO, DeadLetter, StoredItem, Task
from shoal.core.urls import canonical, join
from shoal.discover.source import Found, Refusal, make_refusal, shown


class DeadTasks:
    """A source: the tasks of dead letters, as they were originally queued."""

    def __init__(self, letters: AsyncIterable[DeadLetter]) -> None:
        self._letters = letters
        self.where = "dead letters"

    async def __aiter__(self) -> AsyncIterator[Found]:
        async for letter in self._letters:
            self.where = f"dead letter {letter.id}"
            yield replace(letter.task, delay=ZERO)


class ItemTasks:
    """A source: a task for every item, with the URL from one of its fields, or the whole item as payload.

    A field may hold a list of URLs; relative links are resolved against the item's page.
    """

    def __init__(
        self,
        items: AsyncIterable[StoredItem],
        *,
        step: str,
        field: str | None = None,
        payload: bool = False,
    ) -> None:
        self._items, self._step, self._field, self._payload = items, step, field, payload
        self.where = "items"

    async def __aiter__(self) -> AsyncIterator[Found]:
        async for item in self._items:
            self.where = f"item {item.id}"
            for found in self._tasks_of(item):
                yield found

    def _tasks_of(self, item: StoredItem) -> list[Found]:
        if not isinstance(item.data, Mapping):
            return [Refusal(self.where, shown(str(item.data)), "the item is not an object with fields")]
        if self._field is None:
            return [Task(step=self._step, payload=item.data)]
        links = _links(item.data.get(self._field))
        if not links:
            reason = f"its field {self._field!r} holds no URL"
            return [Refusal(self.where, shown(str(item.data)), reason)]
        return [self._task(item, link) for link in links]

    def _task(self, item: StoredItem, link: str) -> Found:
        try:
            url = join(item.url, link) if item.url else canonical(link)
        except InvalidUrl as error:
            return make_refusal(self.where, link, error)
        return Task(url=url, step=self._step, payload=item.data if self._payload else NOTHING)


def _links(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [link for link in values if isinstance(link, str) and link.strip()]
