"""Queues of different namespaces share one server and are isolated from each other."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from shoal.core.errors import UnknownRun
from shoal.core.model import MINUTE, Done, Fate
from shoal.queue.address import with_namespace
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from tests.conformance.backends import StoreUnderTest, lasting
from tests.conformance.helpers import ME, claim_all, claim_one, data_of, every, page, pages, start

NAMESPACES = ("", "news", "my_own-2")


@pytest_asyncio.fixture(loop_scope="session")
async def queues(store: StoreUnderTest) -> AsyncIterator[list[Queue]]:
    """The queue without a namespace, and two with one, on the same server."""
    async with AsyncExitStack() as stack:
        opened = []
        for namespace in NAMESPACES:
            queue = await stack.enter_async_context(open_queue(with_namespace(store.address, namespace)))
            stack.push_async_callback(_purge_all, queue)  # a broker serves all tests
            opened.append(queue)
        yield opened


async def _purge_all(queue: Queue) -> None:
    for run in await queue.runs():
        await queue.purge(run.id)


@lasting
async def test_runs_hosts_workers_notes_and_results_are_those_of_one_namespace(queues: list[Queue]) -> None:
    for position, queue in enumerate(queues):
        assert not await queue.runs()
        run = await start(queue, page(1, f"host{position}.example"), run_id="daily")
        await queue.pause_host(f"paused{position}.example", MINUTE)
        await queue.beat(f"worker{position}", run_id=run.id)
        await queue.write_notes("tokens", {"budget": str(position).encode()})
        lease = await claim_one(queue, run)
        assert await queue.settle([Done(lease, items=[{"position": position}])]) == [Fate.ACCEPTED]
    for position, queue in enumerate(queues):
        (run,) = await queue.runs()
        assert await data_of(queue, run) == [{"position": position}]
        assert (await queue.stats("daily")).completed == 1
        hosts = {status.host async for status in queue.hosts()}
        assert hosts == {f"host{position}.example", f"paused{position}.example"}
        beating = {worker.worker_id for worker in await queue.workers()}
        assert f"worker{position}" in beating
        assert not beating - {f"worker{position}", ME}
        assert (await queue.notes("tokens"))["budget"].value == str(position).encode()


@lasting
async def test_a_task_is_handed_out_in_its_own_namespace_and_a_purge_ends_there(queues: list[Queue]) -> None:
    runs = [await start(queue, *pages(20), run_id="daily") for queue in queues]
    assert len(await claim_all(queues[1], runs[1], limit=7)) == 20
    assert await queues[2].abandon(ME) == 0
    assert await queues[1].abandon(ME) == 20
    await queues[1].purge("daily")
    with pytest.raises(UnknownRun):
        await queues[1].stats("daily")
    for position in (0, 2):
        assert len(await claim_all(queues[position], runs[position], limit=7)) == 20


@lasting
async def test_a_namespace_is_there_when_it_is_opened_again(
    store: StoreUnderTest, queues: list[Queue]
) -> None:
    await start(queues[1], *pages(3), run_id="daily")
    async with open_queue(with_namespace(store.address, "news")) as again:
        assert await again.migrate() == await queues[0].migrate()
        assert len(await every(again.tasks("daily"))) == (0 if store.backend == "rabbitmq" else 3)
        assert (await again.stats("daily")).remaining == 3
