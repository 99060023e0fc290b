"""The seeds that a scraper itself has: its start URLs and the function that yields more."""

import inspect
import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from contextvars import ContextVar
from typing import Any

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.model import Task
from shoal.core.text import shorten

SeedFunction = Callable[..., Any]  # returns or yields URLs and tasks; may be async
# Commands write data to stdout, where a print of your code would end up in the middle of it.
prints_to_stderr: ContextVar[bool] = ContextVar("prints_to_stderr", default=False)


@contextmanager
def user_code() -> Iterator[None]:
    """Run code of the user: in a command, its prints go to stderr."""
    with redirect_stdout(sys.stderr) if prints_to_stderr.get() else nullcontext():
        yield


def read_start(given: Any) -> tuple[str | Task, ...]:
    """Read the start URLs and tasks of a scraper; raises InvalidSetting."""
    found = (given,) if isinstance(given, (str, Task)) else given
    if not isinstance(found, Iterable):
        raise InvalidSetting("start", f"must be a list of URLs, got {shorten(repr(given), 60)}")
    seeds = tuple(found)
    for one in seeds:
        if not isinstance(one, (str, Task)):
            raise InvalidSetting("start", f"must hold URLs and tasks, got {shorten(repr(one), 60)}")
    return seeds


def check_seed_function(function: Any) -> SeedFunction:
    """Return the function; raises InvalidInput if it cannot be called with the arguments or with nothing."""
    if callable(function) and not isinstance(function, type):
        for given in ((), (None,)):
            try:
                inspect.signature(function).bind(*given)
            except TypeError:
                continue
            return function  # type: ignore[no-any-return]
    raise InvalidInput("Seeds are a function with one parameter, the arguments, or none: def seeds(args)")


def call_seed_function(function: SeedFunction, args: Any) -> Any:
    """Call the function, with the arguments of the run if it has a parameter."""
    takes_args = any(
        each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.VAR_POSITIONAL)
        for each in inspect.signature(function).parameters.values()
    )
    return function(args) if takes_args else function()


async def iterate_seeds(
    function: SeedFunction, args: Any, iterate: Callable[[Iterable[Any]], AsyncIterator[Any]]
) -> AsyncIterator[Any]:
    """Yield what the function yields or returns; `iterate` reads what is not async."""
    found = call_seed_function(function, args)
    if inspect.isawaitable(found):
        found = await found
    if isinstance(found, AsyncIterable):
        async for one in found:
            yield one
    elif isinstance(found, (str, Task)):
        yield found
    elif found is not None:
        async for one in iterate(found):
            yield one
