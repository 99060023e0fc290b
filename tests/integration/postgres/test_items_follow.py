"""Items are followed by their ids, and an item that is committed late is not missed."""

import asyncio
import json
import time
from datetime import timedelta

import pytest

from shoal.core.model import Done, Reject
from shoal.queue.postgres import reports
from shoal.queue.postgres.reports import MAX_PAGE_BYTES, stored_query
from tests.conformance.helpers import claim_all, every, pages, start

A_WHILE = 0.3


@pytest.fixture
async def run(queue):
    return await start(queue, *pages(3))


@pytest.fixture
async def leases(queue, run):
    return await claim_all(queue, run)


def done(lease, name):
    return Done(lease, items=[name], rejects=[Reject(data=name, reason="odd")])


@pytest.mark.parametrize("kind", ["items", "rejects"])
async def test_an_item_that_is_committed_late_is_waited_for_and_comes_in_order(
    queue, run, leases, uncommitted, kind
):
    read = getattr(queue, kind)
    async with uncommitted() as slow:
        await slow.settle([done(leases[0], "late")])
        await queue.settle([done(leases[1], "early")])
        reading = asyncio.create_task(every(read(run.id)))
        await asyncio.wait([reading], timeout=A_WHILE)
        seen = list(reading.result()) if reading.done() else []
    seen += await reading if not seen else []
    seen += await every(read(run.id, after=seen[-1].id))
    assert [one.data for one in seen] == ["late", "early"]


async def test_an_item_that_is_rolled_back_is_waited_for_no_longer(queue, run, leases, uncommitted):
    with pytest.raises(ConnectionError):
        async with uncommitted() as slow:
            await slow.settle([done(leases[0], "never")])
            await queue.settle([done(leases[1], "early")])
            reading = asyncio.create_task(every(queue.items(run.id)))
            raise ConnectionError("its worker died")
    assert [item.data for item in await reading] == ["early"]


async def test_settlements_of_other_runs_are_not_waited_for(queue, run, leases, uncommitted):
    other = await start(queue, *pages(1))
    (theirs,) = await claim_all(queue, other)
    await queue.settle([done(leases[0], "mine")])
    async with uncommitted() as slow:
        await slow.settle([done(theirs, "theirs")])
        async with asyncio.timeout(5):
            assert [item.data for item in await every(queue.items(run.id))] == ["mine"]


async def test_transactions_of_other_programs_are_not_waited_for(queue, run, leases, direct):
    await queue.settle([done(leases[0], "mine")])
    async with direct.transaction():
        await direct.execute("CREATE TABLE theirs (n int)")  # holds an xid until it ends
        async with asyncio.timeout(5):
            assert [item.data for item in await every(queue.items(run.id))] == ["mine"]


async def test_a_settlement_that_hangs_is_not_waited_for_without_end(
    queue, run, leases, uncommitted, monkeypatch, caplog
):
    monkeypatch.setattr(reports, "SETTLE_TIMEOUT", timedelta(milliseconds=100))
    async with uncommitted() as hanging:
        await hanging.settle([done(leases[0], "late")])
        await queue.settle([done(leases[1], "early")])
        started = time.monotonic()
        assert [item.data for item in await every(queue.items(run.id))] == ["early"]
    assert time.monotonic() - started < 5
    assert "takes too long" in caplog.text


async def test_who_follows_many_settlements_at_once_sees_every_item_once(queue):
    tasks, settlers = 300, 4
    run = await start(queue, *pages(tasks))
    leases = await claim_all(queue, run, limit=tasks)

    async def settle(share):
        for lease in share:
            await queue.settle([Done(lease, items=[lease.task_id])])

    work = [asyncio.create_task(settle(leases[n::settlers])) for n in range(settlers)]
    seen, last = [], 0
    while True:
        finished = all(one.done() for one in work)
        for item in await every(queue.items(run.id, after=last)):
            seen.append(item.data)
            last = item.id
        if finished:
            break
    await asyncio.gather(*work)
    assert len(seen) == len(set(seen)) == tasks


async def test_a_page_of_heavy_items_ends_early_and_none_is_missing(queue, run, leases):
    heavy = [f"{number} {'x' * 3_000_000}" for number in range(8)]
    await queue.settle([Done(leases[0], items=heavy)])
    assert [item.data[:1] async for item in queue.items(run.id)] == [str(number) for number in range(8)]


@pytest.mark.parametrize("step", [None, "unheard of"])
async def test_a_page_is_read_without_a_look_at_the_others(queue, run, leases, direct, step):
    await queue.settle([Done(leases[0], items=["one"])])
    await direct.execute(
        "INSERT INTO shoal.item (run, task, stored_at, data)"
        " SELECT i.run, i.task, i.stored_at, i.data FROM shoal.item i, generate_series(1, 30000)"
    )
    await direct.execute("ANALYZE")
    query = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {stored_query('item')}"
    for _ in range(8):  # the server may change its plan after the first few
        (plan,) = json.loads(await direct.fetchval(query, run.id, 10_000, 500, step, 10**9, MAX_PAGE_BYTES))
    scans = [node for node in nodes(plan["Plan"]) if node.get("Relation Name") == "item"]
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in scans) == 500
    assert all(node["Node Type"] != "Seq Scan" for node in scans)


def nodes(plan):
    """Yield a node of a plan and all its descendants."""
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)
