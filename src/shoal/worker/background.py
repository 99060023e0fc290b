"""Supervised background tasks of a worker: one that fails ends the worker with its error."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

from shoal.core.errors import DutyFailed
from shoal.core.tasks import WATCHED


@asynccontextmanager
async def run_beside(name: str, work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a background task while the block runs; if it fails, cancel the block and raise DutyFailed."""
    task: asyncio.Task[None] | None = None
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work, name=name)
            try:
                yield
            finally:
                task.cancel()
                # Not at the end of the group: there Python 3.11 would leave the owner cancelled if it fails.
                await asyncio.wait([task])
    except BaseExceptionGroup as errors:
        if task and (error := failure_of(task)):
            raise DutyFailed(name, error) from error
        of_block = errors.exceptions[0]
        raise of_block from of_block.__cause__


def failure_of(task: "asyncio.Task[Any]") -> BaseException | None:
    """Return the error of a task that has ended; None if it succeeded or was cancelled."""
    return None if task.cancelled() else task.exception()


T = TypeVar("T")

CLOSE_TIMEOUT = timedelta(seconds=5)  # for cancelled tasks to end; a step may ignore the cancellation


class Background:
    """Runs tasks beside the main one; none of their errors goes unnoticed."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failed = asyncio.Event()
        self._error: BaseException | None = None
        self.is_closing = False  # whether `run` cancels what is left

    def start(self, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run a task in the background; if it fails, `run` raises its error."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_end)
        return task

    async def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Return what `main` returns, or raise the first error of it or of a background task."""
        loop = asyncio.get_running_loop()
        before = loop.get_exception_handler()
        loop.set_exception_handler(self._on_loop_error)  # for the background tasks of fetchers
        working = asyncio.create_task(main)
        failing = asyncio.create_task(self._failed.wait())
        try:
            await asyncio.wait([working, failing], return_when=asyncio.FIRST_COMPLETED)
            if self._error:
                raise self._error
            return working.result()
        finally:
            self.is_closing = True
            await _cancel({working, failing, *self._tasks})
            loop.set_exception_handler(before)

    def _on_end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error:
            error.add_note(f"This ended the worker's background task {task.get_name()}.")
            self._fail(error)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
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
    done, _ = await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT.total_seconds())
    for task in done:
        if not task.cancelled():
            task.exception()  # mark as retrieved; the first error is raised already
