"""The cost of a claim, in commands, does not grow with tasks that it cannot lease. Time would be noise."""

import pytest

from shoal.core.model import MINUTE, ZERO, Bury, Done
from shoal.queue.redis.claim import claim_arguments
from shoal.queue.redis.queue import RedisQueue
from shoal.queue.redis.records import read_claim
from shoal.queue.requests import ClaimRequest
from tests.conformance.helpers import HOUR, claim, claim_all, page, start

TOLERANCE = 5  # commands


async def commands_of(direct, call):
    """Return the number of commands of the scripts of a call."""
    await direct.config_resetstat()
    await call
    stats = await direct.info("commandstats")
    return sum(one["calls"] for name, one in stats.items() if name != "cmdstat_config|resetstat")


async def cost(queue, direct, run):
    """Return the cost of leasing one task of a free host."""
    await queue.enqueue(run.id, [page("free", "free.example")])
    return await commands_of(direct, claim(queue, run, limit=1))


@pytest.fixture
async def plain(queue, direct):
    """The cost of a claim in an otherwise empty run."""
    return await cost(queue, direct, await start(queue, run_id="plain"))


async def test_tasks_that_wait_in_a_host_queue_cost_nothing(queue, direct, plain):
    run = await start(queue, *(page(n, f"h{n % 50}.example") for n in range(2_000)))
    assert await commands_of(direct, claim(queue, run, limit=1)) <= plain + TOLERANCE


async def test_hosts_that_keep_their_gap_are_visited_once(queue, direct, plain):
    run = await start(
        queue, *(page(n, f"h{n % 500}.example", priority=9) for n in range(1_000)), host_delay=HOUR
    )
    assert len(await claim_all(queue, run, limit=100)) == 500
    assert await cost(queue, direct, run) <= plain + TOLERANCE


async def test_full_hosts_are_visited_once(queue, direct, plain):
    run = await start(queue, *(page(n, f"h{n % 500}.example", priority=9) for n in range(1_000)), per_host=1)
    assert len(await claim_all(queue, run, limit=100)) == 500
    assert await cost(queue, direct, run) <= plain + TOLERANCE


async def test_paused_hosts_are_visited_once(queue, direct, plain):
    run = await start(queue, *(page(n, f"h{n}.example", priority=9) for n in range(500)))
    for number in range(500):
        await queue.pause_host(f"h{number}.example", HOUR)
    assert await claim_all(queue, run) == []
    assert await cost(queue, direct, run) <= plain + TOLERANCE


async def test_what_is_done_dead_or_delayed_costs_nothing(queue, direct, plain):
    tasks = [page(n, f"h{n % 50}.example", delay=HOUR if n % 3 == 0 else 0 * HOUR) for n in range(1_500)]
    run = await start(queue, *tasks)
    leases = await claim_all(queue, run, limit=500)
    await queue.settle([Done(lease) if n % 2 else Bury(lease, "no") for n, lease in enumerate(leases)])
    assert await cost(queue, direct, run) <= plain + TOLERANCE


async def test_idle_runs_cost_nothing(queue, direct, plain):
    for number in range(100):
        await start(queue, page(number, delay=HOUR), run_id=f"rest-{number}")
    run = await start(queue)
    assert await cost(queue, direct, run) <= plain + TOLERANCE
    assert await commands_of(direct, queue.reclaim()) < 15


async def test_tasks_that_expired_together_are_removed_some_at_a_time(queue, direct, redis_url):
    count, batch = 2_000, 500
    run = await start(queue, *(page(n, ttl=MINUTE) for n in range(count)), page("last"))
    async with await RedisQueue.open(redis_url, skew=lambda: HOUR) as later:
        calls, longest = 0, 0
        while calls < 2 * count / batch:
            await direct.config_resetstat()
            answer = await later._runs.once("claim", 0, run.id, *claim_arguments(request(run), 1, 0))
            stats = await direct.info("commandstats")
            longest = max(longest, stats.get("cmdstat_hget", {"calls": 0})["calls"])
            calls += 1
            head, leases = read_claim(answer, run.id)
            if not head.more:
                break
            assert not leases
        assert [lease.task.url for lease in leases] == ["https://a.example/last"]
        assert count / batch <= calls < 2 * count / batch
        assert longest < batch + 100, f"one call looked {longest} tasks up"
        stats = await later.stats(run.id)
        assert (stats.expired, stats.pending, stats.leased) == (count, 0, 1)


async def test_a_claim_that_meets_very_many_expired_tasks_ends_early_and_the_next_one_continues(
    queue, redis_url, monkeypatch
):
    monkeypatch.setattr("shoal.queue.redis.claim.CLAIM_TIME_SECONDS", 0.0)
    run = await start(queue, *(page(n, ttl=MINUTE) for n in range(1_200)), page("last"))
    async with await RedisQueue.open(redis_url, skew=lambda: HOUR) as later:
        grant = await later.claim("worker-1", run_id=run.id)
        assert (list(grant.leases), grant.next_due, grant.drained) == ([], ZERO, False)
        while not (grant := await later.claim("worker-1", run_id=run.id)).leases:
            assert grant.next_due == ZERO
        assert (await later.stats(run.id)).expired == 1_200


def request(run):
    return ClaimRequest("worker-1", run.id, 1, MINUTE)
