"""Bundles that Redis expects and the broker does not have."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from shoal.core.errors import QueueError
from shoal.core.tasks import watched
from shoal.queue.rabbitmq.state import ONLY, StateStore

REPORT_INTERVAL_SECONDS = 1.0  # between two reports on one route
MICROSECONDS = 1_000_000

log = logging.getLogger(__name__)
IsEmpty = Callable[[str, int, int], Awaitable[bool]]


class LostBundles:
    """Reports empty routes to Redis, which gives their bundles up in the end: see `76_losses.lua`."""

    def __init__(self, state: StateStore, is_empty: IsEmpty) -> None:
        self._state, self._is_empty = state, is_empty
        self._next_report: dict[tuple[int, int], float] = {}
        self._checks: dict[tuple[int, int], asyncio.Task[None]] = {}

    async def close(self) -> None:
        """Stop the checks."""
        tasks = list(self._checks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._checks.clear()  # a task that was cancelled before it started has not removed itself

    async def report_empty(self, run_id: str, number: int, route: int) -> None:
        """Report that a route is empty, and check again later: where hosts are slow, no claim may do so."""
        now = asyncio.get_running_loop().time()
        if now < self._next_report.get((number, route), 0.0):
            return
        self._next_report[number, route] = now + REPORT_INTERVAL_SECONDS
        wait = await self._report(run_id, number, route)
        if wait is not None and (number, route) not in self._checks:
            check = self._check_again(run_id, number, route, wait)
            self._checks[number, route] = watched(asyncio.create_task(check))

    async def _report(self, run_id: str, number: int, route: int) -> float | None:
        """Report to Redis, and return the seconds until the next check."""
        lost, again = await self._state.call("found_empty", ONLY, number, route)
        if int(lost):
            log.error(
                "%d tasks of the run %s are lost: RabbitMQ no longer has their messages. "
                "Enqueue the same source into the run again to restore its tasks; links need a new run.",
                int(lost),
                run_id,
            )
        return None if int(again) < 0 else int(again) / MICROSECONDS

    async def _check_again(self, run_id: str, number: int, route: int, wait: float | None) -> None:
        try:
            with suppress(QueueError):
                while wait is not None:
                    await asyncio.sleep(wait)
                    wait = None
                    if await self._is_empty(run_id, number, route):
                        wait = await self._report(run_id, number, route)
        finally:
            self._checks.pop((number, route), None)
