"""taskiq: a Redis stream or a durable RabbitMQ queue, many tasks at once, acknowledged when done."""

import asyncio
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tools.bench.peers.order import order

ORDER = order()
TALLY = ORDER.tally()
AT_ONCE = 100


def _broker() -> Any:
    if ORDER.on_redis:
        return import_module("taskiq_redis").RedisStreamBroker(ORDER.address, queue_name=ORDER.queue)
    pika: Any = import_module("taskiq_aio_pika")
    queue = pika.Queue(name=ORDER.queue, type=pika.QueueType(ORDER.choice["kind"]))
    dead = pika.Queue(name=f"{ORDER.queue}.dead")
    return pika.AioPikaBroker(
        ORDER.address, qos=ORDER.choice["at_once"], task_queues=[queue], dead_letter_queue=dead
    )


broker = _broker()


@broker.task(task_name="visit")  # type: ignore[untyped-decorator]
async def visit(url: str) -> None:
    """Do nothing but count."""
    TALLY()


def fill(urls: Sequence[str]) -> float:
    """Send the jobs, many at once, and return the seconds that it took."""
    return float(import_module("uvloop").run(_fill(urls)))


async def _fill(urls: Sequence[str]) -> float:
    await broker.startup()
    began = time.monotonic()
    for first in range(0, len(urls), AT_ONCE):
        await asyncio.gather(*(visit.kiq(url) for url in urls[first : first + AT_ONCE]))
    seconds = time.monotonic() - began
    await broker.shutdown()
    return seconds
