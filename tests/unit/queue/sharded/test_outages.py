"""While one server is away, the hosts of the others go on."""

import asyncio
from datetime import timedelta

import pytest

from shoal.core.errors import EditMovesServer, PartlySettled, QueueUnavailable, ServersChanged
from shoal.core.model import Bury, Done, Fate, RunState
from shoal.queue.contract import LetterEdit
from shoal.queue.sharded import members, settle
from shoal.queue.sharded.links import outbox
from tests.unit.queue.sharded.hosts import NAMES, NO_DELAY, every, hosts_of, page, server


async def fill(queue):
    run = await queue.start_run("books", settings=NO_DELAY)
    await queue.enqueue(run.id, [page(host) for host in NAMES])
    return run


async def test_a_claim_gives_what_the_other_server_has_and_the_run_is_not_drained(queue):
    run = await fill(queue)
    server(queue, "two").is_off = True
    leases = (await queue.claim("me", run_id=run.id, limit=100)).leases
    assert {lease.task.url.split("/")[2] for lease in leases} == set(hosts_of(queue, "one"))
    await queue.settle([Done(lease) for lease in leases])
    assert not (await queue.claim("me", run_id=run.id)).drained
    server(queue, "two").is_off = False
    leases = []
    while not leases:  # the first claim only notices that it is back
        leases = (await queue.claim("me", run_id=run.id, limit=100)).leases
    assert {lease.task.url.split("/")[2] for lease in leases} == set(hosts_of(queue, "two"))


async def test_without_any_server_a_claim_fails(queue):
    run = await fill(queue)
    for name in ("one", "two"):
        server(queue, name).is_off = True
    with pytest.raises(QueueUnavailable):
        await queue.claim("me", run_id=run.id)


async def test_what_the_other_server_settled_is_reported_and_the_rest_may_be_sent_again(queue, monkeypatch):
    monkeypatch.setattr(members, "AWAY_TIMEOUT_SECONDS", 60.0)
    run = await fill(queue)
    leases = (await queue.claim("me", run_id=run.id, limit=100)).leases
    server(queue, "two").is_off = True
    with pytest.raises(PartlySettled) as caught:
        await queue.settle([Done(lease, items=[1]) for lease in leases])
    rest = [lease for lease, fate in zip(leases, caught.value.fates, strict=True) if fate is None]
    assert {lease.task.url.split("/")[2] for lease in rest} == set(hosts_of(queue, "two"))
    server(queue, "two").is_off = False
    assert set(await queue.settle([Done(lease, items=[1]) for lease in rest])) == {Fate.ACCEPTED}
    assert (await queue.stats(run.id)).items == len(NAMES)


async def test_an_outcome_whose_call_is_late_is_not_sent_twice(queue, monkeypatch):
    run = await fill(queue)
    leases = (await queue.claim("me", run_id=run.id, limit=100)).leases
    monkeypatch.setattr(settle, "SETTLE_TIMEOUT_SECONDS", 0.01)
    two, back = server(queue, "two"), asyncio.Event()
    call = two.call

    async def late(verb):
        await back.wait()
        return await call(verb)

    monkeypatch.setattr(two, "call", late)
    with pytest.raises(PartlySettled) as caught:
        await queue.settle([Done(lease) for lease in leases])
    rest = [lease for lease, fate in zip(leases, caught.value.fates, strict=True) if fate is None]
    monkeypatch.setattr(settle, "SETTLE_TIMEOUT_SECONDS", 60.0)
    monkeypatch.setattr(members, "AWAY_TIMEOUT_SECONDS", 60.0)
    back.set()
    assert set(await queue.settle([Done(lease) for lease in rest])) == {Fate.ACCEPTED}
    assert (await queue.stats(run.id)).completed == len(NAMES)


async def test_leases_that_arrive_after_the_claim_has_returned_are_given_back(queue, monkeypatch):
    monkeypatch.setattr(members, "STALL_TIMEOUT_SECONDS", 0.01)
    run = await fill(queue)
    two, back = server(queue, "two"), asyncio.Event()
    store = await two.stream_from()
    claim = store.claim

    async def late(*args, **named):
        await back.wait()
        return await claim(*args, **named)

    monkeypatch.setattr(store, "claim", late)
    leases = (await queue.claim("me", run_id=run.id, limit=100)).leases
    assert len(leases) == len(hosts_of(queue, "one"))
    (stalled,) = two.stalled
    back.set()
    await stalled
    assert (await store.stats(run.id)).leased == 0


def fail_once(monkeypatch, store, verb, skip=0):
    """Let the server be away at one call of a verb, and return the calls; what the call does is done."""
    calls, real = [], getattr(store, verb)

    async def fails(*args, **named):
        calls.append(args)
        reply = await real(*args, **named)
        if len(calls) == skip + 1:
            raise QueueUnavailable("two", "it was switched off")
        return reply

    monkeypatch.setattr(store, verb, fails)
    return calls


async def leased_on(queue, run):
    return (await queue.stats(run.id)).leased


async def test_leases_that_could_not_be_given_back_are_given_back_with_the_next_claim(queue, monkeypatch):
    run = await fill(queue)
    for name in ("one", "two"):
        store = await server(queue, name).stream_from()

        async def away(outcomes):
            raise QueueUnavailable("store", "it is switched off")

        monkeypatch.setattr(store, "settle", away)
    leases = (await queue.claim("me", run_id=run.id, limit=4)).leases  # small: each server gives four
    assert (len(leases), await leased_on(queue, run)) == (4, 8)
    monkeypatch.undo()
    more = (await queue.claim("me", run_id=run.id, limit=100)).leases
    assert len(leases) + len(more) == await leased_on(queue, run)
    await queue.settle([Done(lease) for lease in (*leases, *more)])
    rest = (await queue.claim("me", run_id=run.id, limit=100)).leases
    await queue.settle([Done(lease) for lease in rest])
    assert (await queue.stats(run.id)).completed == len(NAMES)


async def test_a_server_that_fails_at_its_second_share_does_not_take_the_first_with_it(queue, monkeypatch):
    run = await queue.start_run("books", settings=NO_DELAY)
    (here, *_), (there, *_) = hosts_of(queue, "one"), hosts_of(queue, "two")
    await queue.enqueue(run.id, [page(there, number) for number in range(30)] + [page(here)])
    calls = fail_once(monkeypatch, await server(queue, "two").stream_from(), "claim", skip=1)
    leases = (await queue.claim("me", run_id=run.id, limit=20)).leases
    assert len(calls) == 2  # the second is for what the first server did not have
    assert len(leases) == 11


async def test_starts_count_from_the_server_that_gave_first(queue, site, monkeypatch):
    run = await fill(queue)
    await queue.claim("me", run_id=run.id, limit=2, partitions=[])  # both clocks are known
    store, late = await server(queue, "one").stream_from(), timedelta(milliseconds=200)
    claim = store.claim

    async def claims_late(*args, **named):
        await asyncio.sleep(late.total_seconds())
        await site.clock.forward(late)
        return await claim(*args, **named)

    monkeypatch.setattr(store, "claim", claims_late)
    grant = await queue.claim("me", run_id=run.id, limit=100)
    starts = {lease.task.url.split("/")[2]: lease.start_in for lease in grant.leases}
    assert all(starts[host] == timedelta(0) for host in hosts_of(queue, "two"))
    assert all(starts[host] > late / 2 for host in hosts_of(queue, "one"))


async def test_leases_are_given_back_if_the_rest_of_the_claim_fails(queue, monkeypatch):
    run = await fill(queue)
    await queue.write_notes("plan", {"key": b"1"})
    fence = ("plan", "key", (await queue.notes("plan"))["key"].stamp)
    fail_once(monkeypatch, await server(queue, "one").stream_from(), "notes", skip=1)
    with pytest.raises(QueueUnavailable):
        await queue.claim("me", run_id=run.id, limit=10, fence=fence)
    assert await leased_on(queue, run) == 10
    leases = (await queue.claim("me", run_id=run.id, limit=100)).leases
    leases = [*leases, *(await queue.claim("me", run_id=run.id, limit=100)).leases]
    assert len(leases) == len(NAMES)


async def test_leases_of_the_other_server_are_extended_before_the_error(queue):
    run = await fill(queue)
    leases = (await queue.claim("me", run_id=run.id, limit=100)).leases
    server(queue, "two").is_off = True
    with pytest.raises(QueueUnavailable):
        await queue.extend(leases)
    with pytest.raises(QueueUnavailable):
        await queue.abandon("me")
    assert (await server(queue, "one").call(lambda one: one.stats(run.id))).leased == 0


async def test_a_server_that_missed_a_pause_is_told_when_it_is_back(queue, monkeypatch):
    monkeypatch.setattr(outbox, "SWEEP_INTERVAL_SECONDS", 0.0)
    run = await fill(queue)
    await queue.claim("me", run_id=run.id, limit=1)
    two = server(queue, "two")
    two.is_off = True
    with pytest.raises(QueueUnavailable):
        await queue.pause(run.id)
    two.is_off = False
    async with asyncio.timeout(30):
        while (await two.call(lambda one: one.run(run.id))).state is not RunState.PAUSED:
            await queue.claim("me", run_id=run.id, limit=1)  # on a busy machine it may seem to be away still
    assert not (await queue.claim("me", run_id=run.id)).leases


async def test_a_queue_opens_while_a_server_that_it_knows_is_away(site, monkeypatch):
    first = await site.open()
    run = await fill(first)

    from tests.unit.queue.sharded.conftest import Server

    monkeypatch.setattr(Server, "is_off", property(lambda self: self.name == "two"))
    second = await site.open()
    assert len((await second.claim("me", run_id=run.id, limit=100)).leases) == len(hosts_of(first, "one"))


async def test_a_new_list_of_servers_is_refused_while_a_run_has_tasks(site, queue):
    run = await fill(queue)
    with pytest.raises(ServersChanged, match=run.id):
        await site.open("one", "two", "three")
    await queue.cancel(run.id)
    grown = await site.open("one", "two", "three")
    assert grown._members.names == ["one", "two", "three"]
    assert (await grown.stats(run.id)).tasks == len(NAMES)
    with pytest.raises(ServersChanged, match="one, two"):
        await grown.enqueue(run.id, [page("new.example")])


async def test_a_queue_that_was_on_one_server_keeps_its_runs(site):
    alone = await site.open("one")
    run = await fill(alone)
    leases = (await alone.claim("me", run_id=run.id, limit=100)).leases
    await alone.settle([Done(lease, items=[1]) for lease in leases])
    both = await site.open("one", "two")
    assert (await both.stats(run.id)).items == len(await every(both.items(run.id))) == len(NAMES)


async def test_the_order_of_the_addresses_does_not_move_the_home(site, queue):
    await queue.write_notes("topic", {"key": b"1"})
    again = await site.open("two", "one")
    assert again._members.home.name == "one"
    assert (await again.notes("topic"))["key"].value == b"1"


async def test_a_dead_letter_cannot_move_to_another_server(queue):
    run = await fill(queue)
    (here, *_), (there, *_) = hosts_of(queue, "one"), hosts_of(queue, "two")
    leases = (await queue.claim("me", run_id=run.id, limit=100)).leases
    await queue.settle([Bury(lease, "gone") for lease in leases if here in lease.task.url])
    (letter,) = await every(queue.dead(run.id))
    with pytest.raises(EditMovesServer, match=f"dead drop {run.id} {letter.id}"):
        await queue.edit(run.id, [LetterEdit(letter=letter, task=page(there, 9), by="ann", note="x")])


async def test_counts_to_show_are_those_of_the_servers_that_reply(queue):
    run = await fill(queue)
    await queue.beat("me", run_id=run.id)
    server(queue, "two").is_off = True
    with pytest.raises(QueueUnavailable):
        await queue.stats(run.id)
    stats = await queue.reachable_stats(run.id)
    assert (stats.pending, stats.unreachable) == (len(hosts_of(queue, "one")), ("two",))
    assert [one.worker_id for one in await queue.workers(run.id)] == ["me"]
    assert [one.id for one in await queue.runs()] == [run.id]
    server(queue, "two").is_off = False
    async with asyncio.timeout(30):
        while (stats := await queue.reachable_stats(run.id)).unreachable:
            await asyncio.sleep(0.01)  # the first call only notices that it is back
    assert stats.pending == len(NAMES)
