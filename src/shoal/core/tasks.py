"""Tasks that run beside everything else and that nobody awaits until the end: their errors are reported."""

import asyncio
from typing import Any, TypeVar

T = TypeVar("T")

WATCHED = "shoal_watched"  # in the context of what is reported


def watched(task: asyncio.Task[T]) -> asyncio.Task[T]:
    """Report the error of a task to the loop's exception handler as soon as it fails; return the task.

    Without a handler of its own a loop logs it. A worker ends with it.
    """
    task.add_done_callback(_report)
    return task


def _report(task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if error:
        message = f"A background task has failed: {task.get_name()}"
        context = {"message": message, "exception": error, "task": task, WATCHED: True}
        task.get_loop().call_exception_handler(context)
