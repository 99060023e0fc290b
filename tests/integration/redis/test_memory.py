"""A pending URL is small, and a run that is purged leaves nothing behind."""

import pytest

from shoal.core.model import MINUTE, ZERO, Done, RunSettings, Task
from tests.conformance.helpers import claim, claim_all, page, start

MOST_PER_URL = 150  # bytes; the queue is to hold millions
URLS, HOSTS = 200_000, 2_000


def shop(count):
    """Return tasks with URLs of an ordinary length."""
    for number in range(count):
        yield Task(url=f"https://www.shop-{number % HOSTS}.example.com/catalogue/item-{number}/index.html")


@pytest.mark.alone
async def test_a_pending_url_takes_less_than_150_bytes(queue, direct):
    run = await queue.start_run("books", settings=RunSettings(host_delay=ZERO))
    before = (await direct.info("memory"))["used_memory"]
    assert (await queue.enqueue(run.id, shop(URLS))).added == URLS
    used = ((await direct.info("memory"))["used_memory"] - before) / URLS
    assert used < MOST_PER_URL, f"{used:.0f} bytes"
    assert (await queue.enqueue(run.id, shop(1000))).duplicate == 1000
    buckets = await direct.eval(_ODD_BUCKETS, 0)
    assert buckets == 0, f"{buckets} buckets of seen keys are no longer compact"


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
        *("meta", "runs", "run:1", "gates", "hosts", "gone")
    }


async def test_a_run_at_rest_keeps_no_lane_and_no_lease(queue, direct):
    run = await start(queue, *(page(n, f"h{n % 50}.example") for n in range(500)))
    for lease in await claim_all(queue, run, limit=100):
        await queue.settle([Done(lease)])
    for pattern in ("*:q:*", "*:due:*", "*:lanes:*", "*:live:*", "*:leases", "*:deadlines", "*:bodies"):
        assert await direct.keys(pattern) == []
