"""Whether what a plugin registers can be called as Shoal calls it."""

import inspect
from typing import Any


def check_call(value: Any, count: int, wanted: str) -> None:
    """Raise TypeError, with what is wanted, unless a value can be called with `count` arguments."""
    if not callable(value):
        raise TypeError(f"{wanted}, and is of type {type(value).__name__}")
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return  # written in C: only a call can tell
    try:
        signature.bind(*(None,) * count)
    except TypeError as error:
        words = "one argument" if count == 1 else f"{count} arguments"
        raise TypeError(f"{wanted}, and cannot be called with {words}: {error}") from error


def is_async(value: Any) -> bool:
    """Return whether calling a value returns a coroutine, as far as that shows."""
    call = type(value).__call__ if not inspect.isroutine(value) else value
    found = inspect.unwrap(getattr(value, "func", value))  # a partial's function
    return inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(call)
