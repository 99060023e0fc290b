"""On-demand scraping: a listening worker fetches a page now, and its items are returned."""

import asyncio
import logging
import secrets
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, Self

from msgspec.structs import replace

from shoal.core.errors import InvalidTask, NobodyListens, NotAnswered, UnknownRun
from shoal.core.model import SECOND, SEED_STEP, Task
from shoal.core.tasks import restarted, watched
from shoal.fleet.dead_workers import new_worker_id
from shoal.fleet.ondemand.client import HEALTH_INTERVAL, CallClient, WorkerDirectory
from shoal.fleet.ondemand.dispatch import CallPartition, Dispatch, PendingCall, Scraped
from shoal.fleet.status.find import standing_run_id
from shoal.queue.contract import Queue
from shoal.queue.intake import task_id
from shoal.worker.ipc.calls import Signer
from shoal.worker.ondemand import shared_secret

CALL_TIMEOUT = 30 * SECOND

log = logging.getLogger(__name__)


class Balancer:
    """Load-balances calls over the workers that listen for a scraper.

    `strategy` is "least_loaded", "round_robin" or "random"; only workers that passed their last health check
    are chosen. One balancer serves any number of concurrent calls.
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
        client = CallClient(Signer(await shared_secret(self._queue)))
        self._directory = WorkerDirectory(
            self._queue, self._scraper, client, strategy=self._strategy, interval=self._interval
        )
        await self._directory.refresh()
        self._partition = await self._stack.enter_async_context(
            CallPartition(self._queue, self._run.id, f"caller-{new_worker_id()}")
        )
        self._dispatch = Dispatch(self._queue, self._run, self._partition, self._directory, client)
        duties = {"Finding listening workers": self._directory.run, "Dispatching calls": self._dispatch.run}
        for name, run in duties.items():
            duty = watched(asyncio.create_task(restarted(name, run, log.error)))
            self._stack.callback(duty.cancel)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def scrape(self, url: str, *, timeout: timedelta = CALL_TIMEOUT, **payload: Any) -> list[Any]:
        """Fetch a page now, run the scraper's first step on it, and return its items, which are also stored.

        Raises TaskDied when it became a dead letter, NobodyListens, and NotAnswered after the timeout.
        """
        return (await self.call(Task(url=url, payload=payload), timeout=timeout)).items

    async def call(self, task: Task, *, timeout: timedelta = CALL_TIMEOUT) -> Scraped:
        """Process a task now; if no worker has started it by the timeout, it is not started any more."""
        if not len(self._directory):
            await self._directory.refresh()
        if not len(self._directory):
            raise NobodyListens(self._scraper)
        # A key of its own: a second call for the same page fetches it again.
        step = self._directory.seed_step if task.step == SEED_STEP else task.step
        task = replace(
            task, step=step, key=secrets.token_hex(12), partition=self._partition.name, ttl=timeout
        )
        future: asyncio.Future[Scraped] = asyncio.get_running_loop().create_future()
        pending = PendingCall(task, task_id(self._run, task), future)
        self._dispatch.add(pending)
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                await self._queue.enqueue(self._run.id, [task], on_invalid=_refuse)
                self._dispatch.wake()
                return await pending.result
        except TimeoutError as error:
            raise self._timeout_error(pending, timeout) from error
        finally:
            self._dispatch.remove(pending)

    def _timeout_error(self, pending: PendingCall, timeout: timedelta) -> NotAnswered:
        if not self._directory.is_ready:
            return NotAnswered(self._run.id, timeout, f"no worker is healthy: {self._directory.problems}")
        if pending.is_dispatched:
            return NotAnswered(
                self._run.id, timeout, "a worker is still processing it, and will store the result"
            )
        busy = self._dispatch.next_due
        if busy is None:
            return NotAnswered(self._run.id, timeout, "its host is busy, or the run is paused")
        reason = f"the host's rate limit allows the next request in {busy.total_seconds():.1f} s"
        return NotAnswered(self._run.id, timeout, reason, busy)


class Balancers:
    """Creates a balancer per scraper and strategy on first use, and reuses it."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._balancers: dict[tuple[str, str], Balancer] = {}
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def of(self, scraper: str, strategy: str) -> Balancer:
        """Return the balancer of a scraper; raises NobodyListens."""
        async with self._lock:
            if (scraper, strategy) not in self._balancers:
                balancer = Balancer(self._queue, scraper, strategy=strategy)
                self._balancers[scraper, strategy] = await self._stack.enter_async_context(balancer)
            return self._balancers[scraper, strategy]

    async def close(self) -> None:
        """Close all of them."""
        await self._stack.aclose()


def _refuse(position: int, error: InvalidTask) -> None:
    raise error
