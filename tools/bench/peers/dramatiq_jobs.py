"""dramatiq: its own middleware, threads in processes, acknowledged when done."""

import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tools.bench.peers.order import order

ORDER = order()
TALLY = ORDER.tally()

dramatiq: Any = import_module("dramatiq")


def _broker() -> Any:
    if ORDER.on_redis:
        return import_module("dramatiq.brokers.redis").RedisBroker(url=ORDER.address)
    return import_module("dramatiq.brokers.rabbitmq").RabbitmqBroker(url=ORDER.address)


dramatiq.set_broker(_broker())


@dramatiq.actor(queue_name=ORDER.queue)  # type: ignore[untyped-decorator]
def visit(url: str) -> None:
    """Do nothing but count."""
    TALLY()


def fill(urls: Sequence[str]) -> float:
    """Send the jobs over one connection and return the seconds that it took."""
    began = time.monotonic()
    for url in urls:
        visit.send(url)
    return time.monotonic() - began
