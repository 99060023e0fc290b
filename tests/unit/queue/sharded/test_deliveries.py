"""Links to other servers wait for more only while nobody could use them, and arrive in their order."""

import asyncio

import pytest

from shoal.core.errors import PartlySettled, QueueFull
from shoal.core.model import Done, Fate
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


async def test_closing_a_queue_whose_server_hangs_leaves_nothing_running(queue, crawl, monkeypatch):
    monkeypatch.setattr(deliveries, "CLOSE_TIMEOUT_SECONDS", 0.01)
    run, _ = crawl
    await settle_links(queue, run, 1001)
    two = await server(queue, "two").stream_from()
    monkeypatch.setattr(two, "enqueue", lambda *_, **__: asyncio.sleep(60))
    await asyncio.sleep(0)  # until the task that sends them waits
    before = asyncio.all_tasks()
    await queue.close()
    assert asyncio.all_tasks() <= before


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


async def lease_of(queue, run, name):
    """Claim until a page of this server is leased, and return its lease."""
    while True:
        for lease in (await queue.claim("me", run_id=run.id, limit=20)).leases:
            if lease.task.url.split("/")[2] in hosts_of(queue, name):
                return lease


async def test_a_settlement_of_their_server_brings_links_that_wait(queue, crawl):
    run, sent = crawl
    theirs = await lease_of(queue, run, "two")
    await settle_links(queue, run, 1001, 1002)
    await queue.settle([Done(theirs, follow=[page(hosts_of(queue, "two")[0], 1003)])])
    assert (await queue.stats(run.id)).tasks == 403
    assert sent == []
    await queue._outbox.clear(run.id, server(queue, "one"))
    assert sent == []  # their parcels are known to be delivered


async def test_a_settlement_that_is_too_late_brings_no_links_and_they_still_arrive(site, queue, crawl):
    run, sent = crawl
    theirs = await lease_of(queue, run, "two")
    await queue.settle([Done(theirs)])
    await settle_links(queue, run, 1001)
    assert await queue.settle([Done(theirs)]) == [Fate.STALE]
    assert (await queue.stats(run.id)).tasks == 401
    assert [len(batch) for batch in sent] == [1]


async def test_a_settlement_that_fails_with_links_is_repeated_without_them(queue, crawl, monkeypatch):
    """A server may be too full for new tasks, but not for results."""
    run, sent = crawl
    theirs = await lease_of(queue, run, "two")
    two, brought = await server(queue, "two").stream_from(), []
    settle = two.settle

    async def refuse(outcomes):
        brought.append([len(one.follow) for one in outcomes])
        if brought[-1] != [0]:
            raise QueueFull("two", "no room")
        return await settle(outcomes)

    await settle_links(queue, run, 1001)
    with monkeypatch.context() as patch:
        patch.setattr(two, "settle", refuse)
        with pytest.raises(PartlySettled):
            await queue.settle([Done(theirs)])
        assert await queue.settle([Done(theirs)]) == [Fate.ACCEPTED]
    assert brought == [[1], [0]]
    assert (await queue.stats(run.id)).tasks == 401
    assert [len(batch) for batch in sent] == [1]


async def test_no_process_sees_a_run_without_tasks_left_while_a_link_is_on_its_way(site, queue, monkeypatch):
    run = await queue.start_run("books", settings=NO_DELAY)
    (here, *_), (there, *_) = hosts_of(queue, "one"), hosts_of(queue, "two")
    await queue.enqueue(run.id, [page(here)])
    (lease,) = (await queue.claim("me", run_id=run.id)).leases
    await queue.settle([Done(lease, follow=[page(there)])])
    assert queue._deliveries._waiting
    other = await site.open()
    assert (await other.reachable_stats(run.id)).remaining == 1
    assert (await other.stats(run.id)).remaining == 1


async def test_a_run_that_was_paused_is_found_drained_when_it_is_resumed(queue):
    run = await queue.start_run("books", settings=NO_DELAY)
    (here, *_), (there, *_) = hosts_of(queue, "one"), hosts_of(queue, "two")
    await queue.enqueue(run.id, [page(here), page(there)])
    leases = sorted((await queue.claim("me", run_id=run.id)).leases, key=lambda one: here in one.task.url)
    await queue.settle([Done(leases[0])])
    assert not (await queue.claim("me", run_id=run.id)).drained  # nothing was in the outboxes
    await queue.settle([Done(leases[1], follow=[page(there)])])
    await queue.pause(run.id)
    assert not (await queue.claim("me", run_id=run.id)).drained
    await queue.resume(run.id)
    assert (await queue.claim("me", run_id=run.id)).drained


async def test_a_deleted_run_leaves_nothing_to_send(queue, crawl):
    run, sent = crawl
    await settle_links(queue, run, 1001)
    await queue.purge(run.id)
    await queue._deliveries.flush()
    assert sent == []
