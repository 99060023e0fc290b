"""A server that crashes during a run: nothing is lost or done twice, and the run continues."""

import asyncio
import time

import pytest

from shoal.core.model import ZERO, Done, RunSettings, Task
from shoal.queue.postgres.queue import PostgresQueue
from tests.conftest import or_skip
from tests.integration.queues.web import page_url
from tests.servers.postgres import PostgresServer

TASKS, BATCH, CLAIMERS = 1200, 60, 4
RECOVERY = 10.0  # seconds


@pytest.fixture
def server():
    """A separate server, because the test kills it."""
    with or_skip(PostgresServer) as server:
        yield server


class Mill:
    """Producers and claimers that ignore the server's health, and their progress."""

    def __init__(self, url, run_id):
        self._url, self._run_id = url, run_id
        self.added = self.settled = 0
        self._progress = asyncio.Condition()

    async def run(self):
        async with asyncio.TaskGroup() as group:
            group.create_task(self._produce())
            for number in range(CLAIMERS):
                group.create_task(self._claim(f"claimer-{number}"))

    async def reaches(self, settled):
        """Wait until this many tasks are settled."""
        async with self._progress:
            await self._progress.wait_for(lambda: self.settled >= settled)

    async def _produce(self):
        async with await PostgresQueue.open(self._url) as queue:
            for start in range(0, TASKS, BATCH):
                pages = range(max(0, start - BATCH // 2), start + BATCH)  # half of the last batch again
                tasks = [Task(url=page_url(page)) for page in pages]
                self.added += (await queue.enqueue(self._run_id, tasks)).added

    async def _claim(self, name):
        async with await PostgresQueue.open(self._url) as queue:
            while self.settled < TASKS:
                grant = await queue.claim(name, run_id=self._run_id, limit=10)
                await queue.settle([Done(lease, items=[lease.task.url]) for lease in grant.leases])
                async with self._progress:
                    self.settled += len(grant.leases)
                    self._progress.notify_all()
                if not grant.leases:
                    await asyncio.sleep(0.01)


@pytest.mark.long
async def test_a_server_that_is_killed_and_restarted_under_load_loses_nothing_and_the_work_goes_on(server):
    async with await PostgresQueue.open(server.url()) as queue:
        run = await queue.start_run("books", settings=RunSettings(host_delay=ZERO, per_host=1))
        mill = Mill(server.url(), run.id)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(mill.run())
            for share, end in ((0.2, server.kill), (0.5, server.stop), (0.7, server.kill)):
                await mill.reaches(TASKS * share)
                await asyncio.to_thread(end)
                await asyncio.to_thread(server.start)
                back = time.monotonic()
                await mill.reaches(mill.settled + 1)
                assert time.monotonic() - back < RECOVERY
        stats = await queue.stats(run.id)
        assert (stats.tasks, stats.completed, stats.items, mill.added) == (TASKS,) * 4
        items = [item.task_id async for item in queue.items(run.id)]
        assert len(items) == len(set(items)) == TASKS
