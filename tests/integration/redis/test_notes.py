"""Notes leave no key, and on a cluster the leases of a claim are released if the plan changed during it."""

import asyncio

import pytest

from shoal.core.model import MINUTE, ZERO
from shoal.queue.redis.queue import RedisQueue
from tests.conformance.helpers import ME, claim_all, page, start

TOPIC, KEY = "plans", "books"


class Later:
    """An offset of the clock that a test changes."""

    now = ZERO

    def __call__(self):
        return self.now


@pytest.fixture
async def on_cluster(redis_cluster_url):
    async with await RedisQueue.open(redis_cluster_url) as queue:
        yield queue


async def names(direct):
    """Return the names of the keys of notes."""
    keys = [key.decode().partition(":")[2].partition(":")[2] for key in await direct.keys("*")]
    return {key.partition(":")[0] for key in keys} & {
        *("note", "value", "aged", "note_expiry", "topic_expiry", "topics")
    }


async def test_removed_notes_leave_nothing(queue, direct):
    await queue.write_notes(TOPIC, {str(n): b"x" for n in range(100)}, ttl=MINUTE)
    await queue.write_notes(TOPIC, {"kept": b"x"})
    assert await names(direct) == {"note", "value", "aged", "note_expiry", "topic_expiry", "topics"}
    await queue.trim_notes(TOPIC, max_bytes=0)
    assert await direct.zcard("{shoal:0}:note_expiry:plans") == 0
    assert await names(direct) - {"topic_expiry"} == set()


async def test_expired_notes_are_removed_some_at_a_time_by_later_writes_and_reclaims(redis_url, direct):
    later = Later()
    async with await RedisQueue.open(redis_url, skew=later) as queue:
        await queue.write_notes("cache", {str(n): b"x" for n in range(700)}, ttl=MINUTE)
        later.now = MINUTE
        assert await queue.notes("cache") == {}
        await queue.write_notes("cache", {"new": b"1"})
        assert await direct.hlen("{shoal:0}:note:cache") == 601
        for left in (101, 1, 1):
            await queue.reclaim()
            assert await direct.hlen("{shoal:0}:note:cache") == left
    assert await direct.zcard("{shoal:0}:topic_expiry") == 0
    assert await direct.hgetall("{shoal:0}:topics") == {b"cache": b"1"}


async def test_the_bytes_of_a_topic_are_counted_exactly(queue, direct):
    for size in (100, 7, 0, 50):
        await queue.write_notes(TOPIC, {KEY: b"x" * size, "other": b"y"})
        assert int(await direct.hget("{shoal:0}:topics", TOPIC)) == size + 1
    await queue.write_notes(TOPIC, {KEY: None})
    assert int(await direct.hget("{shoal:0}:topics", TOPIC)) == 1


async def test_a_large_topic_is_spread_over_the_shards_of_a_cluster(on_cluster, redis_cluster_url):
    await on_cluster.write_notes("cache", {f"page-{n}": b"x" for n in range(400)})
    counts = [len((await on_cluster._server.call("notes", shard, "cache", b"0"))[1]) for shard in range(16)]
    assert sum(counts) == 400
    assert min(counts) > 0


async def changed_under_way(queue, monkeypatch, run, fence):
    """Claim on a cluster while another client writes a new plan, once tasks have been leased."""
    claim = queue._run_claim

    async def and_then(shard, leases, *args):
        answer = await claim(shard, leases, *args)
        if leases:
            await queue.write_notes(TOPIC, {KEY: b"new"})
        return answer

    monkeypatch.setattr(queue, "_run_claim", and_then)
    grant = await queue.claim(ME, run_id=run.id, fence=fence)
    monkeypatch.undo()
    return grant


@pytest.fixture
async def run(on_cluster):
    return await start(on_cluster, *(page(n, f"h{n}.example") for n in range(20)), max_attempts=1)


@pytest.fixture
async def fence(on_cluster):
    note = await on_cluster.swap_note(TOPIC, KEY, b"plan", stamp=None)
    return TOPIC, KEY, note.stamp


async def test_on_a_cluster_what_was_claimed_while_the_plan_changed_goes_back_untried(
    on_cluster, monkeypatch, run, fence
):
    grant = await changed_under_way(on_cluster, monkeypatch, run, fence)
    assert (list(grant.leases), grant.outdated) == ([], True)
    assert (await on_cluster.stats(run.id)).leased == 0
    assert [lease.attempt for lease in await claim_all(on_cluster, run)] == [1] * 20


async def test_a_topic_is_trimmed_across_shards_with_the_oldest_first(redis_cluster_url):
    later = Later()
    async with await RedisQueue.open(redis_cluster_url, skew=later) as queue:
        for age in range(40):
            later.now = age * MINUTE
            await queue.write_notes("cache", {f"{age}-{n}": b"x" * 10 for n in range(5)})
        assert await queue.trim_notes("cache", max_bytes=1_000) == 100
        left = {int(key.partition("-")[0]) for key in await queue.notes("cache")}
    assert left == set(range(20, 40))


async def test_two_trims_at_once_remove_each_note_once(queue):
    await queue.write_notes("cache", {str(n): b"x" for n in range(1_000)})
    assert sum(await asyncio.gather(*(queue.trim_notes("cache", max_bytes=400) for _ in range(4)))) == 600
    assert len(await queue.notes("cache")) == 400
