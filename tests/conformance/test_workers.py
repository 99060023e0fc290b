"""Workers are listed by their heartbeats, with their leases and counters."""

import pytest

from shoal.core.errors import UnknownRun
from shoal.core.model import MINUTE, Bury, Done, Release, Retry, WorkerStatus
from shoal.queue.contract import Queue, WorkerBeat
from tests.conformance.backends import Clock
from tests.conformance.helpers import ME, TEN, claim, claim_one, pages, start


async def the_worker(queue: Queue, worker_id: str = ME) -> WorkerStatus:
    (status,) = [status for status in await queue.workers() if status.worker_id == worker_id]
    return status


async def test_a_worker_is_listed_once_it_has_sent_a_heartbeat(queue: Queue) -> None:
    run = await start(queue, *pages(2))
    await claim_one(queue, run)
    assert list(await queue.workers()) == []
    await queue.beat(ME, run_id=run.id, state="starting", info={"pid": 7, "host": "büro"})
    status = await the_worker(queue)
    assert (status.worker_id, status.run_id, status.state) == (ME, run.id, "starting")
    assert dict(status.info) == {"pid": 7, "host": "büro"}
    assert status.leased == 1


async def test_the_last_heartbeat_is_the_one_that_is_shown(queue: Queue, clock: Clock) -> None:
    run = await start(queue)
    await queue.beat(ME, run_id=run.id, info={"pages": 1})
    await clock.forward(MINUTE)
    assert MINUTE <= (await the_worker(queue)).last_beat < 2 * MINUTE
    await queue.beat(ME, run_id=run.id, state="stopping", info={"pages": 2})
    status = await the_worker(queue)
    assert (status.state, dict(status.info)) == ("stopping", {"pages": 2})
    assert status.last_beat < TEN


async def test_heartbeats_that_are_sent_together_are_shown_as_if_each_was_sent_alone(queue: Queue) -> None:
    run = await start(queue)
    await queue.beat("w1", run_id=run.id, state="starting")
    beats = [
        WorkerBeat("w1", "running", {"pages": 1}),
        WorkerBeat("w2"),
        WorkerBeat("w3", "frozen", {"a": "ö"}),
    ]
    await queue.beat_together(run.id, beats)
    await queue.beat_together(run.id, [])
    found = {status.worker_id: (status.state, dict(status.info)) for status in await queue.workers(run.id)}
    assert found == {"w1": ("running", {"pages": 1}), "w2": ("running", {}), "w3": ("frozen", {"a": "ö"})}
    # The last of one worker is the one that is shown.
    await queue.beat_together(run.id, [WorkerBeat("w1", "running"), WorkerBeat("w1", "ended")])
    assert (await the_worker(queue, "w1")).state == "ended"
    with pytest.raises(UnknownRun):
        await queue.beat_together("no-such-run", beats)


async def test_a_heartbeat_without_words_says_running(queue: Queue) -> None:
    run = await start(queue)
    await queue.beat(ME, run_id=run.id)
    status = await the_worker(queue)
    assert (status.state, dict(status.info)) == ("running", {})
    assert (status.leased, status.completed, status.failed, status.items) == (0, 0, 0, 0)


async def test_workers_are_listed_by_run(queue: Queue) -> None:
    run, other = await start(queue), await start(queue)
    for worker_id in ("w1", "w2"):
        await queue.beat(worker_id, run_id=run.id)
    await queue.beat("w3", run_id=other.id)
    assert sorted(status.worker_id for status in await queue.workers(run.id)) == ["w1", "w2"]
    assert sorted(status.worker_id for status in await queue.workers()) == ["w1", "w2", "w3"]


async def test_a_worker_is_credited_with_what_it_settled(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *pages(7))
    for worker_id in (ME, "other"):
        await queue.beat(worker_id, run_id=run.id)
    done, retry, bury, release, lost, held = await claim(queue, run, limit=6, lease=MINUTE)
    await queue.settle([Done(done, items=[1, 2]), Retry(retry, "x"), Bury(bury, "x"), Release(release)])
    await queue.extend([held], lease=10 * MINUTE)
    await clock.forward(MINUTE)
    assert await queue.reclaim() == 1
    status = await the_worker(queue)
    assert (status.completed, status.items, status.failed, status.leased) == (1, 2, 3, 1)
    other = await the_worker(queue, "other")
    assert (other.completed, other.items, other.failed, other.leased) == (0, 0, 0, 0)
    assert lost.task_id != held.task_id


async def test_a_stale_settle_credits_nobody(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *pages(1))
    for worker_id in ("dead", "alive"):
        await queue.beat(worker_id, run_id=run.id)
    zombie = await claim_one(queue, run, "dead", lease=MINUTE)
    await clock.forward(MINUTE)
    await queue.reclaim()
    await queue.settle([Done(await claim_one(queue, run, "alive"), items=[1])])
    await queue.settle([Done(zombie, items=[1])])
    dead, alive = await the_worker(queue, "dead"), await the_worker(queue, "alive")
    assert (dead.completed, dead.failed, dead.items) == (0, 1, 0)
    assert (alive.completed, alive.failed, alive.items) == (1, 0, 1)


async def test_a_heartbeat_for_an_unknown_run_is_refused(queue: Queue) -> None:
    with pytest.raises(UnknownRun):
        await queue.beat(ME, run_id="nowhere")
    with pytest.raises(UnknownRun):
        await queue.workers("nowhere")
    assert list(await queue.workers()) == []
