"""A pending URL takes little memory, and a purged run leaves nothing."""

from datetime import timedelta

import pytest

from shoal.core.model import MINUTE, ZERO, Done, RunSettings, Task
from shoal.queue.redis.queue import RedisQueue
from tests.conformance.helpers import claim, claim_all, page, start

MAX_PER_URL = 150  # bytes; the queue is to hold millions
URLS, HOSTS = 100_000, 1_000
WEEK = timedelta(days=7)


def shop(count):
    """Return tasks with URLs of an ordinary length."""
    for number in range(count):
        yield Task(url=f"https://www.shop-{number % HOSTS}.example.com/catalogue/item-{number}/index.html")


@pytest.mark.long
async def test_a_pending_url_takes_less_than_150_bytes_and_24_more_if_other_runs_know_it(queue, direct):
    plain = await _bytes_for(queue, direct, RunSettings(host_delay=ZERO))
    assert plain / URLS < MAX_PER_URL, f"{plain / URLS:.0f} bytes"
    assert await direct.eval(_ODD_BUCKETS, 0) == 0, "buckets of seen keys are no longer compact"
    with_dedup = await _bytes_for(queue, direct, RunSettings(host_delay=ZERO, dedup=WEEK))
    assert (with_dedup - plain) / URLS < 24, f"{(with_dedup - plain) / URLS:.1f} bytes"
    assert await direct.eval(_ODD_BUCKETS.replace("*:seen:*", "*:known:*:*:*"), 0) == 0
    assert await direct.eval(_LASTING, 0) == 0  # they expire by themselves


async def _bytes_for(queue, direct, settings):
    await direct.flushdb()
    await queue.migrate()
    run = await queue.start_run("books", settings=settings)
    before = (await direct.info("memory"))["used_memory"]
    assert (await queue.enqueue(run.id, shop(URLS))).added == URLS
    used = (await direct.info("memory"))["used_memory"] - before
    assert (await queue.enqueue(run.id, shop(1000))).duplicate == 1000
    return used


@pytest.mark.long
async def test_what_other_runs_know_expires_after_nine_eighths_of_its_time_or_is_forgotten(queue, direct):
    run = await start(queue, *(page(n, f"h{n % 50}.example") for n in range(60_000)), dedup=WEEK)
    keys = [*await direct.keys("*known:*"), *await direct.keys("*dedup:*")]
    assert len(keys) > 200  # the buckets of every group were split
    left = [timedelta(milliseconds=await direct.pttl(key)) for key in keys]
    assert min(left) + MINUTE >= WEEK
    assert max(left) <= WEEK + WEEK / 8
    await queue.purge(run.id)
    assert await direct.eval(_LASTING, 0) == 0
    assert await queue.forget("books") == 60_000
    assert not [*await direct.keys("*known:*"), *await direct.keys("*dedup:*")]


async def test_sets_whose_time_is_over_leave_the_list_of_their_scraper(redis_url, direct):
    skew = [ZERO]
    async with await RedisQueue.open(redis_url, skew=lambda: skew[0]) as queue:
        for _ in range(20):
            await start(queue, page(), dedup=WEEK)
            skew[0] += 2 * WEEK
    assert len(await direct.hgetall("{shoal:0}:dedup:books")) == 1


_LASTING = """
local lasting = 0
for _, pattern in ipairs({'*known:*', '*dedup:*'}) do
    for _, key in ipairs(redis.call('KEYS', pattern)) do
        if redis.call('PTTL', key) < 0 then lasting = lasting + 1 end
    end
end
return lasting
"""
_ODD_BUCKETS = """
local odd = 0
for _, key in ipairs(redis.call('KEYS', '*:seen:*')) do
    if redis.call('OBJECT', 'ENCODING', key) ~= 'intset' then odd = odd + 1 end
end
return odd
"""


async def test_a_purged_run_leaves_only_its_hosts_and_its_number(queue, direct):
    await queue.start_run("kept", run_id="kept")
    run = await start(queue, *(page(n, f"h{n % 50}.example") for n in range(2000)), page("x", ttl=MINUTE))
    leases = await claim(queue, run, limit=100)
    await queue.settle([Done(lease, items=[1], follow=[page("new")]) for lease in leases[:50]])
    await queue.purge(run.id)
    left = {key.decode().partition(":")[2].partition(":")[2] for key in await direct.keys("*")}
    assert {name for name in left if not name.startswith("receipt:")} == {
        *("meta", "runs", "run:1", "host_limits", "hosts", "gone")
    }


async def test_an_idle_run_has_no_host_queue_and_no_lease(queue, direct):
    run = await start(queue, *(page(n, f"h{n % 50}.example") for n in range(500)))
    for lease in await claim_all(queue, run, limit=100):
        await queue.settle([Done(lease)])
    for pattern in ("*:q:*", "*:due:*", "*:host_queues:*", "*:live:*", "*:leases", "*:deadlines", "*:bodies"):
        assert await direct.keys(pattern) == []
