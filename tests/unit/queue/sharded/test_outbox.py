"""Follow-up tasks for another server are accepted with the page, and arrive once whatever dies in between."""

import asyncio
from dataclasses import replace

import pytest

from shoal.core.errors import InvalidTask
from shoal.core.model import OUTBOX_STEP, DeadFilter, Done, Fate, RunSettings, Task
from shoal.queue.sharded.links import outbox
from shoal.queue.sharded.links.deliveries import Deliveries
from shoal.queue.sharded.links.outbox import PARCEL_LEASE, RETRY_AFTER, Outbox
from shoal.queue.sqlite.queue import SqliteQueue
from tests.unit.queue.sharded.hosts import NO_DELAY, every, hosts_of, page, server


@pytest.fixture(autouse=True)
def sweep_at_once(monkeypatch):
    monkeypatch.setattr(outbox, "SWEEP_INTERVAL_SECONDS", 0.0)


@pytest.fixture
def one_token(monkeypatch):
    """Give all leases of a claim the same token, as PostgreSQL does."""
    tokens, claim, settle = {}, SqliteQueue.claim, SqliteQueue.settle

    async def claim_with_one(queue, *args, **options):
        grant = await claim(queue, *args, **options)
        shared = max((lease.token for lease in grant.leases), default=0)
        tokens.update(((lease.task_id, shared), lease.token) for lease in grant.leases)
        return replace(grant, leases=[replace(lease, token=shared) for lease in grant.leases])

    def own(lease):
        return replace(lease, token=tokens[lease.task_id, lease.token])

    async def settle_each(queue, outcomes):
        return await settle(queue, [replace(one, lease=own(one.lease)) for one in outcomes])

    monkeypatch.setattr(SqliteQueue, "claim", claim_with_one)
    monkeypatch.setattr(SqliteQueue, "settle", settle_each)


DEATHS = [(Deliveries, "add"), (Deliveries, "enqueue"), (Outbox, "_complete")]


async def claim_page(queue, run):
    """Claim a page of the first server."""
    await queue.enqueue(run.id, [page(hosts_of(queue, "one")[0])])
    (lease,) = (await queue.claim("me", run_id=run.id)).leases
    return lease


async def settle_with_link(queue, run, lease=None):
    """Settle a page of the first server with a link to the second; return the link."""
    (here, *_), (there, *_) = hosts_of(queue, "one"), hosts_of(queue, "two")
    lease = lease or await claim_page(queue, run)
    link = page(there, payload={"deep": [1, "ü"]}, priority=3, depth=2)
    assert await queue.settle([Done(lease, items=[1], follow=[link, page(here, 2)])]) == [Fate.ACCEPTED]
    return link


async def die_with_link(queue, run, monkeypatch, place, method):
    """Let the process die in a method, after it has settled a page with a link."""

    def die(*_):
        raise asyncio.CancelledError

    with monkeypatch.context() as patch, pytest.raises(asyncio.CancelledError):
        patch.setattr(place, method, die)
        await settle_with_link(queue, run)
        await queue._deliveries.flush()
        await queue._outbox.clear(run.id, server(queue, "one"))
    queue._deliveries._waiting.clear()


async def outcomes(queue, run, clock=None):
    """Work until the run is drained; return what was claimed. With a clock, wait for what is not due yet."""
    claimed = []
    while not (grant := await queue.claim("other", run_id=run.id)).drained:
        if clock and not grant.leases:
            await clock.forward(RETRY_AFTER)
        claimed += [lease.task.url for lease in grant.leases]
        await queue.settle([Done(lease) for lease in grant.leases])
    return sorted(claimed)


async def test_a_link_arrives_as_it_was_and_nothing_shows_the_parcel(queue):
    run = await queue.start_run("books", settings=NO_DELAY)
    link = await settle_with_link(queue, run)
    stats = await queue.stats(run.id)
    assert (stats.tasks, stats.completed, stats.pending) == (3, 1, 2)
    await queue._outbox.clear(run.id, server(queue, "one"))
    assert set(stats.steps) == {"main"}
    assert set(stats.partitions) == {""}
    assert {row.step for row in await every(queue.tasks(run.id))} == {"main"}
    (there,) = [one.task async for one in queue.tasks(run.id, keys=[link.url])]
    assert there == link
    stored = await server(queue, "one").call(lambda one: one.stats(run.id))
    assert stored.steps[OUTBOX_STEP].completed == 1


@pytest.mark.parametrize(("place", "method"), DEATHS)
async def test_a_process_that_dies_while_it_sends_loses_no_link(site, queue, monkeypatch, place, method):
    run = await queue.start_run("books", settings=NO_DELAY)
    await die_with_link(queue, run, monkeypatch, place, method)
    assert (await queue.stats(run.id)).completed == 1
    await site.clock.forward(PARCEL_LEASE)
    other = await site.open()
    assert len(await outcomes(other, run)) == 2
    assert (await other.stats(run.id)).tasks == 3


async def test_parcels_that_are_leased_together_all_arrive(site, queue, monkeypatch, one_token):
    (*here,), (*there,) = hosts_of(queue, "one"), hosts_of(queue, "two")
    run = await queue.start_run("books", settings=NO_DELAY)
    await queue.enqueue(run.id, [page(host) for host in here])
    leases = (await queue.claim("me", run_id=run.id, limit=100)).leases
    links = [page(there[0], number) for number in range(len(leases))]
    with monkeypatch.context() as patch:
        patch.setattr(Deliveries, "add", lambda *_: None)  # the process dies
        await queue.settle([Done(lease, follow=[link]) for lease, link in zip(leases, links, strict=True)])
    other = await site.open()
    assert await outcomes(other, run) == sorted(link.url for link in links)


async def test_a_run_with_a_link_on_its_way_is_not_drained(queue, monkeypatch):
    run = await queue.start_run("books", settings=NO_DELAY)
    monkeypatch.setattr(outbox, "SWEEP_INTERVAL_SECONDS", 1e9)
    await die_with_link(queue, run, monkeypatch, Outbox, "_complete")
    leases = (await queue.claim("me", run_id=run.id)).leases
    await queue.settle([Done(lease) for lease in leases])
    assert not (await queue.claim("me", run_id=run.id)).drained


async def test_a_parcel_whose_forwarders_die_is_rescued_from_the_dead_letters(site, queue, monkeypatch):
    run = await queue.start_run("books", settings=RunSettings(host_delay=NO_DELAY.host_delay, max_attempts=1))
    await die_with_link(queue, run, monkeypatch, Outbox, "_complete")
    await site.clock.forward(PARCEL_LEASE)
    await queue.reclaim()
    assert await every(queue.dead(run.id)) == []
    assert (await queue.stats(run.id)).dead == 0
    assert await queue.drop(run.id) == 0
    assert len(await outcomes(queue, run)) == 2


async def test_a_zombies_links_stay_out(site, queue):
    run = await queue.start_run("books", settings=NO_DELAY)
    (here, *_), (there, *_) = hosts_of(queue, "one"), hosts_of(queue, "two")
    await queue.enqueue(run.id, [page(here)])
    (lease,) = (await queue.claim("me", run_id=run.id)).leases
    await queue.abandon("me")
    assert await queue.settle([Done(lease, follow=[page(there)])]) == [Fate.STALE]
    assert (await queue.stats(run.id)).tasks == 1


async def test_links_wait_for_a_server_that_is_away(site, queue):
    run = await queue.start_run("books", settings=NO_DELAY)
    two = server(queue, "two")
    two.is_off = two.is_away = True
    await settle_with_link(queue, run)
    leases = (await queue.claim("me", run_id=run.id)).leases
    await queue.settle([Done(lease) for lease in leases])
    assert not (await queue.claim("me", run_id=run.id)).drained
    two.is_off = False
    # Whether the server replies before the claim goes on without it is a race: the parcel may have to wait.
    assert len(await outcomes(queue, run, site.clock)) == 1
    assert (await queue.stats(run.id)).completed == 3


async def test_the_step_of_parcels_is_reserved(queue):
    run = await queue.start_run("books")
    refused = []
    report = await queue.enqueue(
        run.id, [Task(step=OUTBOX_STEP), Task()], on_invalid=lambda *error: refused.append(error)
    )
    assert (report.added, report.invalid, refused[0][0]) == (1, 1, 0)
    (lease,) = (await queue.claim("me", run_id=run.id)).leases
    with pytest.raises(InvalidTask, match="reserved"):
        await queue.settle([Done(lease, follow=[Task(step=OUTBOX_STEP)])])
    assert not await every(queue.dead(run.id, DeadFilter(step=OUTBOX_STEP)))


async def test_a_link_that_moves_between_two_reads_keeps_the_run_from_being_drained(site, queue, monkeypatch):
    run = await queue.start_run("books", settings=NO_DELAY)
    monkeypatch.setattr(outbox, "SWEEP_INTERVAL_SECONDS", 1e9)
    await die_with_link(queue, run, monkeypatch, Deliveries, "add")
    (lease,) = (await queue.claim("me", run_id=run.id, steps=["main"])).leases
    await queue.settle([Done(lease)])
    other, two_was_read = await site.open(), asyncio.Event()
    one, two = [await server(queue, name).stream_from() for name in ("one", "two")]
    claim_one, claim_two = one.claim, two.claim

    async def after_two(*args, **named):
        await two_was_read.wait()
        await other._outbox.rescue(run.id, server(other, "one"))
        return await claim_one(*args, **named)

    async def first(*args, **named):
        grant = await claim_two(*args, **named)
        two_was_read.set()
        return grant

    monkeypatch.setattr(one, "claim", after_two)
    monkeypatch.setattr(two, "claim", first)
    grant = await queue.claim("me", run_id=run.id)
    assert (list(grant.leases), grant.drained) == ([], False)
    assert len((await queue.claim("me", run_id=run.id)).leases) == 1


async def test_a_server_that_hangs_after_it_has_settled_holds_up_no_worker(site, queue, monkeypatch):
    run = await queue.start_run("books", settings=NO_DELAY)
    # Before the server hangs: a claim looks for parcels too, and would find it out before the settlement.
    lease = await claim_page(queue, run)
    one = await server(queue, "one").stream_from()
    claim = one.claim

    async def hang(worker_id, **named):
        if worker_id == outbox.FORWARDER:
            await asyncio.Event().wait()
        return await claim(worker_id, **named)

    with monkeypatch.context() as patch:
        patch.setattr(outbox, "BATCH_TIMEOUT_SECONDS", 0.01)
        patch.setattr(one, "claim", hang)
        async with asyncio.timeout(60):
            await settle_with_link(queue, run, lease)
            await queue._outbox.rescue(run.id, server(queue, "one"))
    assert server(queue, "one").is_away
    assert len(await outcomes(await site.open(), run)) == 2
