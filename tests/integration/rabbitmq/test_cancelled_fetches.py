"""A fetch that is cancelled while its message arrives does not lose it: the next fetch gets it."""

import asyncio
import random
from datetime import timedelta

import pytest
from pamqp.commands import Basic

from shoal.queue.rabbitmq.broker import Broker, BrokerMessage
from shoal.queue.rabbitmq.names import RunQueues

ROUNDS = 60


@pytest.fixture
async def broker(rabbitmq):
    broker = Broker([rabbitmq.url], "the broker", patience=timedelta(seconds=20))
    await broker.open()
    yield broker
    await broker.close()


async def test_a_message_whose_fetch_was_cancelled_goes_to_the_next_fetch(broker):
    queues = RunQueues("store", "given-up", 1)
    queue = queues.of(0)
    await broker.publish([BrokerMessage(queue, b"the only one", Basic.Properties(delivery_mode=2))])
    cancelled = 0
    try:
        for _ in range(ROUNDS):
            fetching = asyncio.create_task(broker.fetch(queue))
            await asyncio.sleep(random.uniform(0, 0.004))
            cancelled += fetching.cancel()
            await asyncio.wait([fetching])
            if not fetching.cancelled() and (delivery := fetching.result()):
                await broker.requeue(delivery)
        async with asyncio.timeout(10):
            while not (delivery := await broker.fetch(queue)):
                await asyncio.sleep(0.01)
        assert delivery.body == b"the only one"
        await broker.acknowledge(delivery)
    finally:
        await broker.delete([queue])
    assert cancelled > ROUNDS / 10
