"""Bundles that Redis expects and the broker does not have."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from shoal.core.errors import QueueError
from shoal.core.tasks import watched
from shoal.queue.rabbitmq.memory import ONLY, Memory

REPORT_EVERY = 1.0  # seconds between two reports on one way
MICROSECONDS = 1_000_000

log = logging.getLogger(__name__)
Look = Callable[[str, int, int], Awaitable[bool]]


class Losses:
    """Tells Redis of ways that are empty, which gives up bundles in the end: see `76_losses.lua`."""

    def __init__(self, memory: Memory, is_empty: Look) -> None:
        self._memory, self._is_empty = memory, is_empty
        self._next: dict[tuple[int, int], float] = {}
        self._looking: dict[tuple[int, int], asyncio.Task[None]] = {}

    async def close(self) -> None:
        """Stop looking."""
        tasks = list(self._looking.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._looking.clear()  # a task that was cancelled before it began has not taken itself out

    async def found_empty(self, run_id: str, number: int, way: int) -> None:
        """Report that a way is empty, and look again later: where hosts are slow, no claim may do so."""
        now = asyncio.get_running_loop().time()
        if now < self._next.get((number, way), 0.0):
            return
        self._next[number, way] = now + REPORT_EVERY
        again = await self._report(run_id, number, way)
        if again is not None and (number, way) not in self._looking:
            look = self._look_again(run_id, number, way, again)
            self._looking[number, way] = watched(asyncio.create_task(look))

    async def _report(self, run_id: str, number: int, way: int) -> float | None:
        """Tell Redis, and return in how many seconds to look again."""
        lost, again = await self._memory.call("found_empty", ONLY, number, way)
        if int(lost):
            log.error(
                "%d tasks of the run %s are lost: RabbitMQ does not have their messages any more. "
                "Fill the run again from the same source to bring them back.",
                int(lost),
                run_id,
            )
        return None if int(again) < 0 else int(again) / MICROSECONDS

    async def _look_again(self, run_id: str, number: int, way: int, wait: float | None) -> None:
        try:
            with suppress(QueueError):
                while wait is not None:
                    await asyncio.sleep(wait)
                    wait = None
                    if await self._is_empty(run_id, number, way):
                        wait = await self._report(run_id, number, way)
        finally:
            self._looking.pop((number, way), None)
