"""The hooks of a scraper, and the chain that items go through."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from shoal.core.errors import InvalidInput, InvalidItem, StepEnded
from shoal.core.model import Reject
from shoal.core.text import shorten
from shoal.scrape.items import is_item, make_reject

HookFunction = Callable[..., Any]
Subject = Any  # a page, or the task of a step without one


@dataclass(frozen=True, slots=True)
class Hook:
    """A function of the user, the kind of hook that it is, and whether it takes the second argument too."""

    kind: str
    function: HookFunction
    takes_both: bool

    def __str__(self) -> str:
        return f"{self.kind} {getattr(self.function, '__name__', 'hook')}"

    def call(self, first: Any, second: Any) -> Any:
        """Call the function; the result may be awaitable."""
        return self.function(first, second) if self.takes_both else self.function(first)

    async def call_async(self, first: Any, second: Any = None) -> Any:
        """Call the function and await it if it is async."""
        result = self.call(first, second)
        return await result if inspect.isawaitable(result) else result


@dataclass(slots=True)
class ScraperHooks:
    """The hooks of a scraper, in the order in which they were defined."""

    request: list[Hook] = field(default_factory=list)
    response: list[Hook] = field(default_factory=list)
    item: list[Hook] = field(default_factory=list)
    error: list[Hook] = field(default_factory=list)
    start: list[Hook] = field(default_factory=list)
    finish: list[Hook] = field(default_factory=list)
    loop: asyncio.AbstractEventLoop | None = None  # on which async hooks of items run, if the step does not

    def add(self, kind: str, function: HookFunction, *, example: str, max_args: int = 1) -> HookFunction:
        """Add a hook; raises InvalidInput if it cannot be called as the example is."""
        count = _count_args(function, max_args)
        if count is None:
            raise InvalidInput(f"Define a hook as in: {example}; got {shorten(repr(function))}")
        getattr(self, kind.removeprefix("on_")).append(Hook(kind, function, count > 1))
        return function

    def change_item(self, item: Any, subject: Subject) -> list[Any]:
        """Return what the hooks make of a yielded item: items and rejects."""
        chain = self._run_chain(item, subject)
        result: Any = None
        while True:
            try:
                result = chain.send(result)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            result = self._wait_for(result)

    async def change_item_async(self, item: Any, subject: Subject) -> list[Any]:
        """Return what the hooks make of a yielded item: items and rejects."""
        chain = self._run_chain(item, subject)
        result: Any = None
        while True:
            try:
                result = chain.send(result)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            result = await result

    def _run_chain(self, item: Any, subject: Subject) -> Generator[Any, Any, list[Any]]:
        """Yield what is to be awaited, if a hook is async; return what is left at the end."""
        values = [item]
        for hook in self.item:
            changed: list[Any] = []
            for value in values:
                if isinstance(value, Reject):
                    changed.append(value)
                    continue
                result = hook.call(value, subject)
                if hasattr(result, "__await__"):
                    result = yield result
                changed += _read_items(hook, value, result)
            values = changed
        return values

    def _wait_for(self, result: Awaitable[Any]) -> Any:
        """Wait in this thread for an async hook, on the worker's event loop if this is not its thread."""
        coroutine = _as_coroutine(result)
        if self.loop and self.loop.is_running() and not _is_in_loop():
            return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()
        with ThreadPoolExecutor(max_workers=1) as pool:
            return pool.submit(asyncio.run, coroutine).result()


def _read_items(hook: Hook, item: Any, result: Any) -> list[Any]:
    if result is None:
        return [item]  # perhaps changed in place
    if isinstance(result, Reject) or is_item(result):
        return [result]
    if not isinstance(result, list | tuple):
        raise InvalidItem(
            result,
            f"{hook} returned a value of type {type(result).__name__}; return an item, a list of items "
            "([] drops it), a Reject, or nothing to keep the item",
        )
    if not result:
        return [make_reject(item, f"dropped by {hook}")]
    for value in result:
        if not isinstance(value, Reject) and not is_item(value):
            raise InvalidItem(value, f"{hook} returned a list with a value of type {type(value).__name__}")
    return list(result)


def _count_args(function: Any, most: int) -> int | None:
    """Return with how many arguments a function can be called, at most `most`; None if with none."""
    if not callable(function) or isinstance(function, type):
        return None
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    for count in range(most, 0, -1):
        try:
            signature.bind(*(None,) * count)
        except TypeError:
            continue
        return count
    return None


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _as_coroutine(result: Awaitable[Any]) -> Any:
    try:
        return await result
    except (SystemExit, GeneratorExit) as error:
        # These would end the event loop of the worker.
        raise StepEnded("on_item", error) from error
