"""The leases of a worker in the debugger are extended by another thread."""

import asyncio
from datetime import timedelta
from pathlib import Path

from shoal.core.model import RunSettings, Task
from shoal.queue.open import open_queue
from shoal.worker.ipc.protocol import LeasesClaimed, LeasesSettled, WorkerConfig
from shoal.worker.process.debug import LeaseKeeper

LEASE = timedelta(seconds=0.6)


async def test_leases_do_not_expire_while_the_event_loop_stands_still_and_are_released_at_the_end(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/queue.db"
    async with open_queue(url) as queue:
        run = await queue.start_run("books", settings=RunSettings(host_delay=timedelta(0)))
        await queue.enqueue(run.id, [Task(url="https://example.com/a"), Task(url="https://example.com/b")])
        held, settled = (await queue.claim("me", run_id=run.id, lease=LEASE)).leases
        keeper = LeaseKeeper(
            WorkerConfig(queue=url, run_id=run.id, worker_id="me", scraper="", lease=LEASE, memory=1)
        )
        keeper.send(LeasesClaimed(1, [held, settled]))
        keeper.send(LeasesSettled([2]))
        keeper.start()
        # The lease that the keeper has forgotten expires; the other one, of the same age, does not.
        while not await queue.reclaim():
            await asyncio.sleep(0.05)
        assert (await queue.stats(run.id)).leased == 1
        (worker,) = await queue.workers(run.id)
        assert worker.state == "running"
        await asyncio.to_thread(keeper.stop)
        assert (await queue.stats(run.id)).leased == 0
        assert {one.state for one in await queue.workers(run.id)} == {"ended"}
