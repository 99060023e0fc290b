"""A way that is empty is looked at again, whether or not another claim wants it."""

import asyncio
import logging

from shoal.queue.rabbitmq.losses import Losses

SOON = 1000  # microseconds


class Answers:
    """A Redis that answers reports one after the other."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.reports = 0

    async def call(self, script, shard, number, way):
        self.reports += 1
        return self.answers.pop(0)


async def looked(memory, *found):
    """Report an empty way, and wait until nobody looks at it any more; `found` says what each look finds."""
    left = list(found)

    async def is_empty(run_id, number, way):
        return left.pop(0)

    losses = Losses(memory, is_empty)
    await losses.found_empty("r", 1, 0)
    async with asyncio.timeout(10):
        while losses._looking:
            await asyncio.sleep(0.001)
    return left


async def test_it_is_looked_at_again_until_redis_has_decided(caplog):
    memory = Answers((0, SOON), (0, SOON), (250, -1))
    assert await looked(memory, True, True) == []
    assert memory.reports == 3
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "250 tasks of the run r are lost" in caplog.text


async def test_a_way_that_has_something_again_is_left_alone(caplog):
    memory = Answers((0, SOON))
    assert await looked(memory, False) == []
    assert (memory.reports, caplog.text) == (1, "")


async def test_many_claims_that_find_it_empty_report_it_once_a_second():
    memory = Answers((0, 3600 * 1_000_000))
    losses = Losses(memory, looked)
    for _ in range(5):
        await losses.found_empty("r", 1, 0)
    assert memory.reports == 1
    await losses.close()
    assert not losses._looking
