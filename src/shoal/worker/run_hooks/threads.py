"""Calls a hook in a thread of its own, so that it may block; the worker renews its lock meanwhile."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import Any

from shoal.scrape.hooks import Hook


def in_thread(hook: Hook) -> Hook:
    """Return the hook as one that does not block the event loop; one with `async def` runs on the loop."""
    function = hook.function
    if inspect.iscoroutinefunction(function):
        return hook

    @wraps(function)
    async def call(*arguments: Any) -> Any:
        result = await _run(function, *arguments)
        return await result if inspect.isawaitable(result) else result

    return replace(hook, function=call)


async def _run(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what the function returns; if this is cancelled, its thread is left alone."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if result.done():
            return
        if error is None:
            result.set_result(value)
        else:
            result.set_exception(error)

    def work() -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = function(*arguments)
        except StopIteration as ended:  # which a future cannot hold
            error = RuntimeError(f"it raised {ended!r}")
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, value, error)

    # A daemon: a hook that hangs must not keep the program from exiting.
    threading.Thread(target=work, name="run hook", daemon=True).start()
    return await result
