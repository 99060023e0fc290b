"""Duties: work that goes on beside other work, and whose failure must not go unnoticed."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from shoal.core.errors import DutyFailed


@asynccontextmanager
async def beside(name: str, duty: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a duty while the block runs; if it fails, the block is cancelled and DutyFailed is raised."""
    owner, is_over, was_cut_short = asyncio.current_task(), False, False
    assert owner is not None

    def ended(task: asyncio.Task[None]) -> None:
        nonlocal was_cut_short
        if not is_over and not task.cancelled() and task.exception():
            was_cut_short = owner.cancel()

    task = asyncio.create_task(duty, name=name)
    task.add_done_callback(ended)
    try:
        try:
            yield
        finally:
            is_over = True
            task.cancel()
            await asyncio.wait([task])
    except asyncio.CancelledError:
        if not was_cut_short or owner.uncancel() > 0:
            raise
    if error := failure_of(task):
        raise DutyFailed(name, error) from error


def failure_of(task: "asyncio.Task[Any]") -> BaseException | None:
    """Return what a task that has ended failed with, None if it ended well or was cancelled."""
    return None if task.cancelled() else task.exception()
