"""An empty route is checked again, whether or not another claim wants it."""

import asyncio
import logging

from shoal.queue.rabbitmq.losses import LostBundles

SOON = 1000  # microseconds


class Replies:
    """A Redis that replies to reports one after the other."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.reports = 0

    async def call(self, script, shard, number, route):
        self.reports += 1
        return self.replies.pop(0)


async def check(state, *found):
    """Report an empty route, and wait for the checks to end; `found` is the result of each check."""
    left = list(found)

    async def is_empty(run_id, number, route):
        return left.pop(0)

    losses = LostBundles(state, is_empty)
    await losses.report_empty("r", 1, 0)
    async with asyncio.timeout(10):
        while losses._checks:
            await asyncio.sleep(0.001)
    return left


async def test_it_is_looked_at_again_until_redis_has_decided(caplog):
    state = Replies((0, SOON), (0, SOON), (250, -1))
    assert await check(state, True, True) == []
    assert state.reports == 3
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "250 tasks of the run r are lost" in caplog.text


async def test_a_route_that_has_something_again_is_left_alone(caplog):
    state = Replies((0, SOON))
    assert await check(state, False) == []
    assert (state.reports, caplog.text) == (1, "")


async def test_many_claims_that_find_it_empty_report_it_once_a_second():
    state = Replies((0, 3600 * 1_000_000))
    losses = LostBundles(state, check)
    for _ in range(5):
        await losses.report_empty("r", 1, 0)
    assert state.reports == 1
    await losses.close()
    assert not losses._checks
