"""The leases of a worker in the debugger are extended by another thread."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shoal.core.model import RunSettings, Task
from shoal.queue.sqlite.queue import SqliteQueue
from shoal.worker.ipc.protocol import LeasesClaimed, LeasesSettled, WorkerConfig
from shoal.worker.process import inline
from shoal.worker.process.inline import ThreadedLeaseRenewer

LEASE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


@pytest.fixture
def extended_twice(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a queue has extended leases for the second time."""
    monkeypatch.setattr(inline, "RENEW_INTERVAL_SECONDS", 0.01)
    event, extend, calls = threading.Event(), SqliteQueue.extend, []

    async def extend_and_tell(self, leases, **options):
        fates = await extend(self, leases, **options)
        calls.append(fates)
        if len(calls) > 1:
            event.set()
        return fates

    monkeypatch.setattr(SqliteQueue, "extend", extend_and_tell)
    return event


async def test_leases_do_not_expire_while_the_event_loop_stands_still_and_are_released_at_the_end(
    tmp_path: Path, extended_twice: threading.Event
) -> None:
    # The renewer has the real clock; this queue's stands still, a second behind, until the test moves it.
    moment = datetime.now(UTC) - SECOND
    queue = await SqliteQueue.open(tmp_path / "queue.db", now=lambda: moment)
    try:
        run = await queue.start_run("books", settings=RunSettings(host_delay=timedelta(0)))
        await queue.enqueue(run.id, [Task(url="https://example.com/a"), Task(url="https://example.com/b")])
        held, settled = (await queue.claim("me", run_id=run.id, lease=LEASE)).leases
        config = WorkerConfig(
            queue=f"sqlite:///{tmp_path}/queue.db",
            run_id=run.id,
            worker_id="me",
            scraper="",
            lease=LEASE,
            memory=1,
        )
        renewer = ThreadedLeaseRenewer(config)
        renewer.send(LeasesClaimed(1, [held, settled]))
        renewer.send(LeasesSettled([2]))
        renewer.start()
        assert await asyncio.to_thread(extended_twice.wait, 60)
        # The lease that the renewer has forgotten expires; the other one, of the same age, does not.
        moment += LEASE + SECOND / 2
        assert await queue.reclaim() == 1
        assert (await queue.stats(run.id)).leased == 1
        (worker,) = await queue.workers(run.id)
        assert worker.state == "running"
        await asyncio.to_thread(renewer.stop)
        assert (await queue.stats(run.id)).leased == 0
        assert {one.state for one in await queue.workers(run.id)} == {"ended"}
    finally:
        await queue.close()
