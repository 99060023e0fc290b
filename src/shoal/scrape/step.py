"""One function of a scraper: called with a page or a task, and what it gives gathered."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from shoal.core.errors import InvalidInput, InvalidItem
from shoal.core.model import Reject, Task
from shoal.scrape.gate import Gate
from shoal.scrape.harvest import Basket, Harvest
from shoal.scrape.items import Check, is_item
from shoal.scrape.page import Page

Subject = Page | Task


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """A named function that handles tasks, and what it does differently from its scraper.

    `lease`, `retries`, `timeout` and `delivery` are None where the scraper's own hold; `fetch` is None for a
    step that is handed tasks instead of pages, and `as_scraper` says that it is the scraper's own.
    """

    name: str
    function: Callable[..., Any]
    item: type | None = None
    fetch: str | None = "http"
    as_scraper: bool = False
    lease: timedelta | None = None
    retries: int | None = None
    timeout: timedelta | None = None
    delivery: str | None = None
    is_async: bool = False
    check: Check | None = field(default=None, repr=False)
    gate: Gate = field(repr=False)
    route: Callable[[Task], Task] = field(repr=False)

    def harvest(self, subject: Subject) -> Harvest:
        """Run the function to its end and return what it gave; nothing, if it raises half-way."""
        basket = self._basket(subject)
        for value in self._each(self.function(subject)):
            basket.put(value)
        return self._judged(basket.harvest, subject)

    async def harvest_async(self, subject: Subject) -> Harvest:
        """Run the async function to its end and return what it gave; nothing, if it raises half-way."""
        basket = self._basket(subject)
        result = self.function(subject)
        if isinstance(result, Awaitable):
            result = await result
        if isinstance(result, AsyncGenerator):
            async with aclosing(result):
                async for value in result:
                    basket.put(value)
        else:
            for value in self._each(result):
                basket.put(value)
        return self._judged(basket.harvest, subject)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def _basket(self, subject: Subject) -> Basket:
        if isinstance(subject, Page) == (self.fetch is None):
            wanted = "tasks" if self.fetch is None else "pages"
            raise InvalidInput(f"Step {self.name!r} handles {wanted}, got a {type(subject).__name__}")
        return Basket(self.name, self.check)

    def _each(self, result: Any) -> Iterable[Any]:
        """Return what a function gave as single things: one of them, or an iterable of them."""
        if inspect.isawaitable(result) or isinstance(result, AsyncIterable):
            raise InvalidItem(None, f"step {self.name!r} gave something to await; define it with 'async def'")
        if (
            isinstance(result, (Task, Reject, str, bytes))
            or is_item(result)
            or not isinstance(result, Iterable)
        ):
            return (result,)
        return result

    def _judged(self, harvest: Harvest, subject: Subject) -> Harvest:
        parent = subject.task if isinstance(subject, Page) else subject
        if isinstance(subject, Page) and subject.dropped:
            harvest.dropped.update(subject.dropped)
        routed = map(self.route, harvest.follow)
        harvest.follow = self.gate.admit(routed, parent, harvest.items, harvest.dropped)
        return harvest
