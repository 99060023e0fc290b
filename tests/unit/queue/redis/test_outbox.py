"""Outboxes: how often a stream is read if many callers want it delivered."""

import asyncio

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.queue.redis.outbox import Outboxes

CALLERS = 50


class Server:
    """A server whose streams are empty, and that replies when it is told to."""

    def __init__(self):
        self.reads, self.may_reply = 0, asyncio.Event()
        self.error = None

    def key(self, shard, name):
        return f"{shard}:{name}"

    async def command(self, *words):
        self.reads += 1
        await self.may_reply.wait()
        if self.error:
            raise self.error
        return []


async def delivered(*targets):
    return False


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def outboxes(server):
    return Outboxes(server, delivered)


async def waiting(outboxes, count):
    tasks = [asyncio.create_task(outboxes.forward("r1", 1, [0])) for _ in range(count)]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def test_callers_share_the_pass_that_begins_after_their_calls(server, outboxes):
    calls = await waiting(outboxes, 1)
    calls += await waiting(outboxes, CALLERS)  # what they have stored may be missed by the first pass
    server.may_reply.set()
    await asyncio.gather(*calls)
    assert server.reads == 2
    assert not outboxes._turns


async def test_a_pass_that_is_cancelled_serves_nobody(server, outboxes):
    first, *others = await waiting(outboxes, CALLERS)
    first.cancel()
    server.may_reply.set()
    await asyncio.gather(*others)
    assert first.cancelled()
    assert server.reads == 2


async def test_a_pass_that_fails_is_left_to_the_next_call(server, outboxes):
    server.error = QueueUnavailable("redis", "it is away")
    server.may_reply.set()
    await asyncio.gather(*await waiting(outboxes, CALLERS))
    server.error = None
    await asyncio.gather(*await waiting(outboxes, 1))
    assert not outboxes._turns
