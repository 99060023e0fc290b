"""A server that deletes keys when it is full is named before a run works on it, and breaks no reader."""

from datetime import timedelta

import pytest

from shoal.fleet.status.rates import add_rate, read_rates
from shoal.queue.redis.queue import RedisQueue
from tests.conformance.helpers import page, start
from tests.conftest import or_skip
from tests.servers.redis import RedisServer


def evicting(policy="allkeys-lru"):
    return RedisServer(settings={"maxmemory": "200mb", "maxmemory-policy": policy})


@pytest.mark.parametrize(
    ("policy", "says"), [("allkeys-lru", "tasks and results"), ("volatile-ttl", "repeated call")]
)
async def test_a_server_that_evicts_is_named_with_the_command_that_changes_it(policy, says):
    with or_skip(lambda: evicting(policy)) as server:
        async with await RedisQueue.open(server.url()) as queue:
            found, durability = await queue.evictions(), await queue.durability()
    assert found and says in found.text and found.count == 0
    assert "redis-cli CONFIG SET maxmemory-policy noeviction" in found.text
    assert (found.text, durability.safe) == (durability.text, False)


async def test_a_server_that_is_full_or_has_no_limit_evicts_nothing(redis_url):
    settings = {"maxmemory-policy": "allkeys-lru"}  # without a limit it is never applied
    with or_skip(lambda: RedisServer(settings=settings)) as unlimited:
        for url in (redis_url, unlimited.url()):
            async with await RedisQueue.open(url) as queue:
                assert await queue.evictions() is None


async def test_a_note_whose_value_was_evicted_is_read_as_none_and_can_be_written_again(redis_url, direct):
    async with await RedisQueue.open(redis_url) as queue:
        run = await start(queue, page())
        await add_rate(queue, run.id)
        await direct.delete("{shoal:0}:value:run rates")
        assert (await read_rates(queue, run.id)).points == []
        await add_rate(queue, run.id)
        assert len((await read_rates(queue, run.id)).points) == 1
        # It exists now, so it cannot be created.
        assert await queue.swap_note("run rates", run.id, b"{}", stamp=None, ttl=timedelta(days=1)) is None
