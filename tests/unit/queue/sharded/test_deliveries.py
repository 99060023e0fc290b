"""Links to other servers wait for more only while nobody could use them, and arrive in their order."""

import asyncio

import pytest

from shoal.core.model import Done
from shoal.queue.sharded.links import deliveries, outbox
from tests.unit.queue.sharded.hosts import NO_DELAY, hosts_of, page, server


@pytest.fixture
async def crawl(queue, monkeypatch):
    """A run with plenty of pages on both servers, and the batches that the second server was sent."""
    run = await queue.start_run("books", settings=NO_DELAY)
    hosts = [host for name in ("one", "two") for host in hosts_of(queue, name)[:5]]
    await queue.enqueue(run.id, [page(host, number) for number in range(40) for host in hosts])
    await queue.claim("me", run_id=run.id, limit=20)
    two, sent = await server(queue, "two").stream_from(), []
    enqueue = two.enqueue

    async def counts(run_id, tasks, **named):
        sent.append([task.url for task in tasks])
        return await enqueue(run_id, tasks, **named)

    monkeypatch.setattr(two, "enqueue", counts)
    return run, sent


async def settle_links(queue, run, *pages):
    """Settle pages of the first server, each with a link to the second."""
    (there, *_) = hosts_of(queue, "two")
    leases = [
        lease
        for _ in range(2)
        for lease in (await queue.claim("me", run_id=run.id, limit=20)).leases
        if lease.task.url.split("/")[2] in hosts_of(queue, "one")
    ]
    for number, lease in zip(pages, leases, strict=False):
        await queue.settle([Done(lease, follow=[page(there, number)])])


async def test_links_of_several_settlements_are_sent_in_one_call(queue, crawl):
    run, sent = crawl
    await settle_links(queue, run, 1001, 1002, 1003)
    assert sent == []
    assert (await queue.stats(run.id)).tasks == 403  # this process sees what it has settled
    assert [len(batch) for batch in sent] == [3]


async def test_links_are_sent_soon_also_if_the_process_does_nothing_else(queue, crawl, monkeypatch):
    monkeypatch.setattr(deliveries, "LINGER_SECONDS", 0.01)
    run, sent = crawl
    await settle_links(queue, run, 1001)
    async with asyncio.timeout(30):
        while not sent:
            await asyncio.sleep(0.001)


async def test_links_are_sent_when_there_are_many(queue, crawl, monkeypatch):
    monkeypatch.setattr(deliveries, "FULL", 2)
    run, sent = crawl
    await settle_links(queue, run, 1001, 1002, 1003, 1004)
    assert [len(batch) for batch in sent] == [2, 2]


async def test_links_are_sent_before_a_claim_that_may_get_them(queue, crawl):
    run, sent = crawl
    await settle_links(queue, run, 1001)
    await queue.claim("me", run_id=run.id, limit=5, steps=["detail"])
    assert [len(batch) for batch in sent] == [1]


async def test_the_first_of_two_tasks_with_one_key_enters_though_it_waits(queue, crawl):
    run, _ = crawl
    (there, *_) = hosts_of(queue, "two")
    leases = [*(await queue.claim("me", run_id=run.id, limit=20)).leases]
    leases += (await queue.claim("me", run_id=run.id, limit=20)).leases
    by_owner = {name: hosts_of(queue, name) for name in ("one", "two")}
    of = {
        name: next(one for one in leases if one.task.url.split("/")[2] in by_owner[name]) for name in by_owner
    }
    await queue.settle([Done(of["one"], follow=[page(there, 1001, payload={"by": "first"})])])
    await queue.settle([Done(of["two"], follow=[page(there, 1001, payload={"by": "second"})])])
    (row,) = [one async for one in queue.tasks(run.id, keys=[page(there, 1001).url])]
    assert row.task.payload == {"by": "first"}


async def test_closing_the_queue_sends_what_waits(site, queue, crawl):
    run, sent = crawl
    await settle_links(queue, run, 1001)
    await queue._deliveries.close()
    assert [len(batch) for batch in sent] == [1]


async def test_parcels_that_were_delivered_are_completed_many_at_a_time(queue, crawl, monkeypatch):
    monkeypatch.setattr(outbox, "BATCH", 3)
    run, _ = crawl
    one = await server(queue, "one").stream_from()
    await settle_links(queue, run, 1001, 1002, 1003)
    await queue._deliveries.flush()
    assert (await one.stats(run.id)).steps["$outbox"].pending == 3
    await queue.claim("me", run_id=run.id, limit=5)
    assert (await one.stats(run.id)).steps["$outbox"].completed == 3
    assert not queue._deliveries.delivered((run.id, server(queue, "one")))


async def test_links_for_a_server_that_was_away_are_sent_when_it_is_back(site, queue, crawl):
    run, sent = crawl
    two = server(queue, "two")
    await queue.claim("me", run_id=run.id, limit=5)  # the next sweep would be in ten seconds
    two.is_off = two.is_away = True
    await settle_links(queue, run, 1001)
    await queue._deliveries.flush()
    two.is_off = False
    await two.call(lambda store: store.run(run.id))
    await site.clock.forward(outbox.RETRY_AFTER)
    await queue.claim("me", run_id=run.id, limit=5)
    assert [len(batch) for batch in sent] == [1]
