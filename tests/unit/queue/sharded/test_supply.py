"""While every server has more than a claim asks for, they are asked in turn; otherwise all at once."""

import asyncio

import pytest

from shoal.core.model import Done, Fate
from shoal.queue.sharded import members
from shoal.queue.sharded.members import Member
from shoal.queue.sharded.supply import KNOWN_FOR_SECONDS, AskingOrder, ServerSupply
from tests.unit.queue.sharded.hosts import NO_DELAY, hosts_of, page, server

FILTERS = ("run", None, None)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def supply(clock):
    return ServerSupply(clock)


@pytest.fixture
def ready():
    return [Member(name, lambda: None) for name in ("one", "two", "three")]


def record(supply, ready, *replies):
    for member, priorities in zip(ready, replies, strict=True):
        supply.record(FILTERS, member, priorities, asked_for=2)


def test_at_first_all_servers_are_asked_for_their_share(supply, ready):
    assert supply.plan(FILTERS, ready, 100) == AskingOrder(dict.fromkeys(ready, 34))
    assert supply.plan(FILTERS, ready, 8) == AskingOrder(dict.fromkeys(ready, 8))


def test_servers_that_gave_all_are_asked_in_turn_for_the_whole_limit(supply, ready):
    record(supply, ready, [0, 0], [0, 0], [0, 0])
    plans = [supply.plan(FILTERS, ready, 100) for _ in range(6)]
    assert all(list(plan.first.values()) == [100] for plan in plans)
    turns = [next(iter(plan.first)) for plan in plans]
    assert all({*plan.first, *plan.then} == set(ready) for plan in plans)
    assert set(turns[:3]) == set(ready)
    assert turns[3:] == turns[:3]


@pytest.mark.parametrize("last", [[0], []], ids=str)
def test_one_that_gave_less_is_asked_before_the_others_by_every_claim(supply, ready, last):
    record(supply, ready, [0, 0], [0, 0], last)
    for _ in range(3):
        plan = supply.plan(FILTERS, ready, 100)
        assert plan.first == {ready[2]: 100}
        assert set(plan.then) == set(ready[:2])
    assert supply.plan(FILTERS, ready, 8) == AskingOrder(dict.fromkeys(ready, 8))
    record(supply, ready, [0, 0], [0], last)
    assert supply.plan(FILTERS, ready, 100).first == {ready[1]: 50, ready[2]: 50}


@pytest.mark.parametrize(
    "replies", [([0], [0], [0]), ([0, 0], [0, 0], [5, 5]), ([0, 0], [0, 0], [5, 0])], ids=str
)
def test_all_are_asked_if_all_gave_less_or_priorities_differ(supply, ready, replies):
    record(supply, ready, *replies)
    assert supply.plan(FILTERS, ready, 100) == AskingOrder(dict.fromkeys(ready, 34))


def test_all_are_asked_in_a_run_that_had_tasks_of_another_priority(supply, ready):
    """Its host may be free at any moment, also on a server whose last tasks were all of the lowest."""
    record(supply, ready, [0, 0], [0, 0], [5, 0])
    record(supply, ready, [0, 0], [0, 0], [0, 0])
    assert len(supply.plan(FILTERS, ready, 100).first) == 3
    other = ("other run", None, None)
    for member in ready:
        supply.record(other, member, [5, 5], asked_for=2)
    assert len(supply.plan(other, ready, 100).first) == 1
    supply.add_priorities("other run", [9])
    assert len(supply.plan(other, ready, 100).first) == 3


def test_all_are_asked_after_a_while_or_if_one_is_away(supply, ready, clock):
    record(supply, ready, [0, 0], [0, 0], [0, 0])
    ready[1].is_away = True
    assert len(supply.plan(FILTERS, ready, 100).first) == 3
    ready[1].is_away = False
    clock.now = KNOWN_FOR_SECONDS + 1
    assert len(supply.plan(FILTERS, ready, 100).first) == 3


def test_what_a_claim_with_other_filters_got_says_nothing(supply, ready):
    record(supply, ready, [0, 0], [0, 0], [0, 0])
    assert len(supply.plan(("run", ("list",), None), ready, 100).first) == 3


async def fill(queue, pages):
    run = await queue.start_run("books", settings=NO_DELAY)
    hosts = [host for name in ("one", "two") for host in hosts_of(queue, name)[:5]]
    await queue.enqueue(run.id, [page(host, number) for number in range(pages) for host in hosts])
    await queue.claim("me", run_id=run.id, limit=20)
    return run


def count_claims(monkeypatch, *stores):
    """Return a list that gets the limit of each claim of these servers."""
    limits = [[] for _ in stores]
    for found, store in zip(limits, stores, strict=True):

        def counts(*args, found=found, claim=store.claim, **named):
            found.append(named["limit"])
            return claim(*args, **named)

        monkeypatch.setattr(store, "claim", counts)
    return limits


async def stores_of(queue):
    return [await server(queue, name).stream_from() for name in ("one", "two")]


async def test_a_claim_asks_one_server_for_all_and_the_next_claim_the_other(queue, monkeypatch):
    run = await fill(queue, 20)
    limits = count_claims(monkeypatch, *await stores_of(queue))
    for _ in range(4):
        assert len((await queue.claim("me", run_id=run.id, limit=20)).leases) == 20
    assert limits == [[20, 20], [20, 20]]


async def test_what_the_first_server_lacks_comes_from_the_other_in_the_same_claim(queue, monkeypatch):
    run = await fill(queue, 4)  # each server has ten left
    limits = count_claims(monkeypatch, *await stores_of(queue))
    assert len((await queue.claim("me", run_id=run.id, limit=16)).leases) == 16
    assert sorted(limits) == [[6], [16]]
    assert len((await queue.claim("me", run_id=run.id, limit=16)).leases) == 4


async def test_a_server_that_hangs_in_its_turn_does_not_hold_up_the_claim(queue, monkeypatch):
    run = await fill(queue, 20)
    monkeypatch.setattr(
        members, "STALL_TIMEOUT_SECONDS", 0.5
    )  # long enough for the other, also on a busy machine
    one, _ = await stores_of(queue)
    claim, is_back = one.claim, asyncio.Event()

    async def hang(*args, **named):
        await is_back.wait()
        return await claim(*args, **named)

    monkeypatch.setattr(one, "claim", hang)
    for _ in range(2):
        leases = (await queue.claim("me", run_id=run.id, limit=20)).leases
        assert {lease.task.url.split("/")[2] for lease in leases} <= set(hosts_of(queue, "two"))
        assert leases
    stalled = list(server(queue, "one").stalled)
    is_back.set()
    await asyncio.gather(*stalled)
    assert (await one.stats(run.id)).leased == 10  # those of the first claim


async def test_if_no_server_replies_in_its_turn_the_first_that_replies_is_used(queue, monkeypatch):
    run = await fill(queue, 20)
    monkeypatch.setattr(members, "STALL_TIMEOUT_SECONDS", 0.01)
    is_back = asyncio.Event()
    for store in await stores_of(queue):

        async def hang(*args, claim=store.claim, **named):
            await is_back.wait()
            return await claim(*args, **named)

        monkeypatch.setattr(store, "claim", hang)
    claiming = asyncio.create_task(queue.claim("me", run_id=run.id, limit=20))
    async with asyncio.timeout(60):
        while not all(server(queue, name).stalled for name in ("one", "two")):
            await asyncio.sleep(0.001)
        is_back.set()
        assert (await claiming).leases


async def test_a_task_of_a_higher_priority_that_this_process_added_goes_first(queue):
    run = await fill(queue, 20)
    (lease, *_) = (await queue.claim("me", run_id=run.id, limit=5)).leases
    for name in ("one", "two"):
        (host, *_) = hosts_of(queue, name)
        await queue.settle([Done(lease, follow=[page(host, 999, priority=5)])])
        (first, *_) = leases = (await queue.claim("me", run_id=run.id, limit=5)).leases
        assert first.task.priority == 5
        lease = leases[1]
    await queue.enqueue(run.id, [page(hosts_of(queue, "two")[1], 998, priority=7)])
    (first, *_) = (await queue.claim("me", run_id=run.id, limit=5)).leases
    assert first.task.priority == 7
    assert await queue.settle([Done(first)]) == [Fate.ACCEPTED]
