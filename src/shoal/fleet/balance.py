"""Scraping on demand: a page is asked for, a listening worker brings it, and its items come back."""

import asyncio
import logging
import secrets
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from shoal.core.errors import InvalidTask, NobodyListens, NotAnswered, UnknownRun
from shoal.core.model import SECOND, Task
from shoal.core.tasks import restarted, watched
from shoal.fleet.caller import Caller
from shoal.fleet.desk import Desk
from shoal.fleet.directory import HEALTH_INTERVAL, Directory
from shoal.fleet.dispatch import Dispatch, Errand, Scraped
from shoal.fleet.ondemand import standing_run_id
from shoal.fleet.whereabouts import new_worker_id
from shoal.queue.contract import Queue
from shoal.queue.intake import task_id
from shoal.worker.calls import Seal
from shoal.worker.secret import shared_secret

TIMEOUT = 30 * SECOND

log = logging.getLogger(__name__)


class Balancer:
    """Spreads calls over the workers that listen for a scraper.

    `strategy` is "least_loaded", "round_robin" or "random"; only workers that answered their last health
    check are chosen from. One balancer serves any number of calls at once.
    """

    def __init__(
        self,
        queue: Queue,
        scraper: str,
        *,
        strategy: str = "least_loaded",
        health_interval: timedelta = HEALTH_INTERVAL,
    ) -> None:
        self._queue, self._scraper = queue, scraper
        self._strategy, self._interval = strategy, health_interval
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Find the workers; raises NobodyListens."""
        try:
            self._run = await self._queue.run(standing_run_id(self._scraper))
        except UnknownRun as error:
            raise NobodyListens(self._scraper) from error
        caller = Caller(Seal(await shared_secret(self._queue)))
        self._directory = Directory(
            self._queue, self._scraper, caller, strategy=self._strategy, interval=self._interval
        )
        await self._directory.look()
        self._desk = await self._stack.enter_async_context(
            Desk(self._queue, self._run.id, f"caller-{new_worker_id()}")
        )
        self._dispatch = Dispatch(self._queue, self._run, self._desk, self._directory, caller)
        duties = {"Looking who listens": self._directory.run, "Handing out calls": self._dispatch.run}
        for name, run in duties.items():
            duty = watched(asyncio.create_task(restarted(name, run, log.error)))
            self._stack.callback(duty.cancel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def scrape(self, url: str, *, timeout: timedelta = TIMEOUT, **payload: Any) -> list[Any]:
        """Fetch a page now, hand it to the scraper's first step, and return its items, which are stored too.

        Raises TaskDied when it became a dead letter, NobodyListens, and NotAnswered after the timeout.
        """
        return (await self.call(Task(url=url, payload=payload), timeout=timeout)).items

    async def call(self, task: Task, *, timeout: timedelta = TIMEOUT) -> Scraped:
        """Have a task handled now; what nobody has begun when the time is over is not begun any more."""
        if not len(self._directory):
            await self._directory.look()
        if not len(self._directory):
            raise NobodyListens(self._scraper)
        # A key of its own: a call for the same page is a new visit.
        task = replace(task, key=secrets.token_hex(12), partition=self._desk.name, ttl=timeout)
        future: asyncio.Future[Scraped] = asyncio.get_running_loop().create_future()
        errand = Errand(task, task_id(self._run, task), future)
        self._dispatch.enter(errand)
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                await self._queue.enqueue(self._run.id, [task], on_invalid=_refuse)
                self._dispatch.wake()
                return await errand.result
        except TimeoutError as error:
            raise self._not_answered(errand, timeout) from error
        finally:
            self._dispatch.leave(errand)

    def _not_answered(self, errand: Errand, timeout: timedelta) -> NotAnswered:
        if not self._directory.is_ready:
            return NotAnswered(self._run.id, timeout, f"no worker is well: {self._directory.trouble}")
        if errand.is_out:
            return NotAnswered(self._run.id, timeout, "a worker is still at it, and will store the result")
        busy = self._dispatch.next_due
        if busy is None:
            return NotAnswered(self._run.id, timeout, "its host is busy, or the run is paused")
        reason = f"the host may not be asked for another {busy.total_seconds():.1f} s"
        return NotAnswered(self._run.id, timeout, reason, busy)


class Balancers:
    """Balancers that are made when they are first needed, and kept."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._made: dict[tuple[str, str], Balancer] = {}
        self._making = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def of(self, scraper: str, strategy: str) -> Balancer:
        """Return the balancer of a scraper; raises NobodyListens."""
        async with self._making:
            if (scraper, strategy) not in self._made:
                balancer = Balancer(self._queue, scraper, strategy=strategy)
                self._made[scraper, strategy] = await self._stack.enter_async_context(balancer)
            return self._made[scraper, strategy]

    async def close(self) -> None:
        """Close all of them."""
        await self._stack.aclose()


def _refuse(position: int, error: InvalidTask) -> None:
    raise error
