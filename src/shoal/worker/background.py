"""The background tasks of a worker, supervised: one that fails ends the worker with its error."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from shoal.core.tasks import WATCHED

T = TypeVar("T")

CLOSE_TIMEOUT = 5.0  # seconds for tasks that are cancelled to end; a step may refuse to


class Background:
    """Runs tasks beside the main one; no error of theirs goes unnoticed."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failed = asyncio.Event()
        self._error: BaseException | None = None

    def start(self, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run this in the background; if it fails, so does `run`."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    async def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Return what `main` returns, or raise the first error of it or of a background task."""
        loop = asyncio.get_running_loop()
        before = loop.get_exception_handler()
        loop.set_exception_handler(self._heed)  # of what fetchers do in the background
        working = asyncio.create_task(main)
        failing = asyncio.create_task(self._failed.wait())
        try:
            await asyncio.wait([working, failing], return_when=asyncio.FIRST_COMPLETED)
            if self._error:
                raise self._error
            return working.result()
        finally:
            await _cancel({working, failing, *self._tasks})
            loop.set_exception_handler(before)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error:
            error.add_note(f"This ended the worker's background task {task.get_name()}.")
            self._fail(error)

    def _heed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if WATCHED in context:
            self._fail(context["exception"])
        else:
            loop.default_exception_handler(context)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._failed.set()


async def _cancel(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    done, _ = await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)
    for task in done:
        if not task.cancelled():
            task.exception()  # the first one is raised already
