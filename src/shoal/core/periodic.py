"""Periodic exchanges with the queue: every few seconds something is read or written."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

from shoal.core.errors import QueueError

JITTER = 0.2  # of the interval: workers that were started together must not do it all at once


async def repeat(
    exchange: Callable[[], Awaitable[object]],
    interval: timedelta,
    *,
    jitter: float = JITTER,
    at_once: bool = False,
) -> None:
    """Call `exchange` periodically until cancelled; what a queue error prevents is left to the next time.

    Any other error is raised: start it as a background task that is supervised. With `at_once`, the first
    call does not wait for the interval.
    """
    seconds = interval.total_seconds()
    is_due = at_once
    while True:
        if is_due:
            with suppress(QueueError):
                await exchange()
        await asyncio.sleep(seconds * random.uniform(1 - jitter, 1 + jitter))
        is_due = True


async def exchange_last(exchange: Callable[[], Awaitable[object]], timeout: timedelta) -> None:
    """Call `exchange` once more at the end, unless the queue is away or does not reply in time."""
    with suppress(QueueError, TimeoutError):
        async with asyncio.timeout(timeout.total_seconds()):
            await exchange()
