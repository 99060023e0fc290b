"""A call whose request or answer is lost is repeated: it is done once, and its caller hears so."""

import asyncio

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.model import (
    MINUTE,
    SECOND,
    Bury,
    Done,
    EnqueueReport,
    Fate,
    Reject,
    Release,
    Retry,
    RunState,
)
from shoal.queue.contract import EditFate, LetterEdit
from shoal.queue.open import open_queue
from tests.conformance.helpers import HOST, HOUR, claim, claim_all, data_of, page, pages, start, the_host
from tests.integration.shaky import LOST_TWICE, TROUBLES


async def test_a_run_is_started_once(shaky, queue):
    async with shaky.on("start_run") as it:
        run = await it.start_run("books")
    assert [run.id for run in await queue.runs()] == [run.id]


async def test_enqueue_counts_each_key_once(shaky, queue):
    run = await start(queue, *pages(10))
    async with shaky.on("enqueue") as it:
        report = await it.enqueue(run.id, pages(100))
    assert report == EnqueueReport(added=90, duplicate=10)
    assert (await queue.stats(run.id)).pending == 100


async def test_enqueue_does_not_find_its_own_tasks_known_from_another_run(shaky, queue):
    earlier = await start(queue, *pages(10), dedup=HOUR)
    run = await start(queue, dedup=HOUR)
    async with shaky.on("enqueue") as it:
        report = await it.enqueue(run.id, [*pages(100), page(1)])
    assert report == EnqueueReport(added=90, known=11)
    assert (await queue.stats(run.id)).pending == 90
    assert (await queue.stats(earlier.id)).pending == 10


async def test_settle_does_not_find_its_own_follow_ups_known_from_another_run(shaky, queue):
    await start(queue, *pages(10), dedup=HOUR)
    run = await start(queue, page("listing"), dedup=HOUR)
    (lease,) = await claim_all(queue, run)
    async with shaky.on("settle") as it:
        assert await it.settle([Done(lease, follow=pages(100))]) == [Fate.ACCEPTED]
    stats = await queue.stats(run.id)
    assert (stats.pending, stats.completed) == (90, 1)


@pytest.mark.parametrize("shaky", TROUBLES, indirect=True)
async def test_the_tasks_of_a_lost_claim_are_handed_to_the_same_worker(shaky, queue):
    run = await start(queue, *pages(5, "a.example"), *pages(5, "b.example"), max_attempts=1)
    async with shaky.on("claim") as it:
        grant = await it.claim("worker-1", run_id=run.id, limit=6)
    assert len({lease.task_id for lease in grant.leases}) == 6
    assert {lease.attempt for lease in grant.leases} == {1}
    assert (await queue.stats(run.id)).leased == 6
    assert await queue.settle([Done(lease) for lease in grant.leases]) == [Fate.ACCEPTED] * 6


async def test_a_lost_claim_that_granted_nothing_still_says_when_to_come_back(shaky, queue):
    run = await start(queue, *pages(2), host_delay=2 * SECOND)
    await claim(queue, run)
    async with shaky.on("claim") as it:
        grant = await it.claim("worker-1", run_id=run.id)
    assert not grant.leases
    assert grant.next_due <= 2 * SECOND
    assert not grant.drained


@pytest.mark.parametrize("shaky", TROUBLES, indirect=True)
async def test_settle_stores_items_follow_ups_and_failures_once(shaky, queue):
    run = await start(queue, *pages(5), max_attempts=2)
    done, retried, buried, released, twice = await claim_all(queue, run)
    outcomes = [
        Done(done, items=["a", "b"], follow=[page(8), page(9)], rejects=[Reject(data="c", reason="why")]),
        Retry(retried, "late", after=HOUR),
        Bury(buried, "gone"),
        Release(released),
        Done(twice, items=["d"]),
        Done(twice, items=["e"]),
    ]
    async with shaky.on("settle") as it:
        fates = await it.settle(outcomes)
    assert fates == [Fate.ACCEPTED] * 5 + [Fate.STALE]
    stats = await queue.stats(run.id)
    assert (stats.pending, stats.delayed, stats.dead, stats.completed, stats.leased) == (3, 1, 1, 2, 0)
    assert (stats.items, stats.rejected) == (3, 1)
    assert sorted(await data_of(queue, run)) == ["a", "b", "d"]


async def test_extend_answers_for_the_leases_that_live(shaky, queue):
    run = await start(queue, *pages(2))
    alive, ended = await claim_all(queue, run, lease=MINUTE)
    await queue.settle([Done(ended)])
    async with shaky.on("extend") as it:
        assert await it.extend([alive, ended], lease=HOUR) == [Fate.ACCEPTED, Fate.STALE]


async def test_reclaim_counts_what_it_took_back(shaky, queue):
    run = await start(queue, *pages(5), max_attempts=2)
    assert len(await claim(queue, run, lease=SECOND / 100)) == 5
    await asyncio.sleep(0.02)  # the store's clock cannot be moved here
    async with shaky.on("reclaim") as it:
        assert await it.reclaim() == 5
    stats = await queue.stats(run.id)
    assert (stats.pending, stats.leased) == (5, 0)
    assert {lease.attempt for lease in await claim_all(queue, run)} == {2}


async def test_abandon_counts_what_it_gave_back(shaky, queue):
    runs = [await start(queue, *pages(5), max_attempts=1) for _ in range(2)]
    for run in runs:
        await claim_all(queue, run, "dead-1")
    async with shaky.on("abandon") as it:
        assert await it.abandon("dead-1") == 10
    for run in runs:
        stats = await queue.stats(run.id)
        assert (stats.pending, stats.leased, stats.tasks) == (5, 0, 5)
        assert {lease.attempt for lease in await claim_all(queue, run)} == {1}
    assert await queue.abandon("dead-1") == 0


@pytest.fixture
async def run_with_dead(queue):
    run = await start(queue, *pages(5))
    await queue.settle([Bury(lease, "gone") for lease in await claim_all(queue, run)])
    return run


async def test_replay_counts_what_it_put_back(shaky, queue, run_with_dead):
    async with shaky.on("replay") as it:
        assert await it.replay(run_with_dead.id) == 5
    stats = await queue.stats(run_with_dead.id)
    assert (stats.pending, stats.dead, stats.tasks) == (5, 0, 5)
    assert len(await claim_all(queue, run_with_dead)) == 5


async def test_an_edit_is_made_once_and_does_not_find_its_own_key_taken(shaky, queue, run_with_dead):
    letters = [letter async for letter in queue.dead(run_with_dead.id)]
    edits = [
        LetterEdit(letter=letter, task=page(n, "b.example"), by="ann", note="edited")
        for n, letter in enumerate(letters)
    ]
    async with shaky.on("edit") as it:
        assert await it.edit(run_with_dead.id, edits) == [EditFate.EDITED] * 5
    found = [letter async for letter in queue.dead(run_with_dead.id)]
    assert [letter.task for letter in found] == [edit.task for edit in edits]
    assert {len(letter.history) for letter in found} == {2}
    stats = await queue.stats(run_with_dead.id)
    assert (stats.dead, stats.tasks) == (5, 5)


async def test_drop_counts_what_it_gave_up(shaky, queue, run_with_dead):
    async with shaky.on("drop") as it:
        assert await it.drop(run_with_dead.id) == 5
    stats = await queue.stats(run_with_dead.id)
    assert (stats.dropped, stats.dead, stats.tasks) == (5, 0, 5)


async def test_a_run_is_paused_resumed_and_cancelled(shaky, queue):
    run = await start(queue)
    steps = [("pause", RunState.PAUSED), ("resume", RunState.RUNNING), ("cancel", RunState.CANCELLED)]
    for verb, state in steps:
        async with shaky.on("steer") as it:
            assert (await getattr(it, verb)(run.id)).state is state
        assert (await queue.run(run.id)).state is state


async def test_a_host_is_paused_and_slowed(shaky, queue):
    async with shaky.on("pause_host") as it:
        await it.pause_host(HOST, HOUR)
    async with shaky.on("slow_host") as it:
        await it.slow_host(HOST, MINUTE)
    async with shaky.on("take_turn") as it:
        assert await it.take_turn(HOST, SECOND) <= MINUTE  # one that was planned before the reply was lost
    status = await the_host(queue)
    assert status.delay == MINUTE
    assert HOUR - MINUTE < status.paused_for <= HOUR + MINUTE


async def test_a_heartbeat_arrives(shaky, queue):
    run = await start(queue)
    async with shaky.on("beat") as it:
        await it.beat("worker-1", run_id=run.id, info={"pages": 3})
    (worker,) = await queue.workers(run.id)
    assert (worker.worker_id, worker.info) == ("worker-1", {"pages": 3})


async def test_a_run_is_purged_and_its_neighbour_stays(shaky, queue):
    run, neighbour = await start(queue, *pages(3)), await start(queue, *pages(3))
    async with shaky.on("purge") as it:
        await it.purge(run.id)
    assert [left.id for left in await queue.runs()] == [neighbour.id]
    assert (await queue.stats(neighbour.id)).pending == 3


async def test_looking_is_simply_done_again(shaky, queue):
    run = await start(queue, *pages(3), max_attempts=1)
    first, second, third = await claim_all(queue, run)
    await queue.settle([Done(first, items=["a"]), Done(second, items=["b"]), Bury(third, "gone")])
    async with shaky.on("stats") as it:
        assert (await it.stats(run.id)).completed == 2
    async with shaky.on("items") as it:
        assert sorted(await data_of(it, run)) == ["a", "b"]
    async with shaky.on("dead") as it:
        assert [letter.error async for letter in it.dead(run.id)] == ["gone"]
    async with shaky.on("hosts") as it:
        assert [status.counts.completed async for status in it.hosts(run.id)] == [2]


@pytest.mark.parametrize("shaky", [LOST_TWICE], indirect=True)
async def test_an_answer_that_is_lost_twice_is_heard_the_third_time(shaky, queue):
    run = await start(queue)
    async with shaky.on("enqueue") as it:
        assert (await it.enqueue(run.id, pages(10))).added == 10
    async with shaky.on("claim") as it:
        leases = await claim(it, run)
    assert len(leases) == 10
    async with shaky.on("settle") as it:
        assert await it.settle([Done(lease, items=["a"]) for lease in leases]) == [Fate.ACCEPTED] * 10
    assert len(await data_of(queue, run)) == 10


async def test_a_server_that_is_away_for_too_long_is_unavailable_and_welcome_later(stand, proxy, queue):
    run = await start(queue, page())
    async with open_queue(stand.through(proxy.port), patience=SECOND / 2) as it:
        await proxy.refuse()
        with pytest.raises(QueueUnavailable, match="cannot be reached"):
            await it.stats(run.id)
        with pytest.raises(QueueUnavailable):
            await it.enqueue(run.id, pages(3))
        await proxy.accept()
        assert (await it.enqueue(run.id, [page(2)])).added == 1
        assert len(await claim_all(it, run)) == 2
