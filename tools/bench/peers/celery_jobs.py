"""Celery: no results, acknowledged when done, with a long prefetch as its guide has it for short tasks."""

import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tools.bench.peers.order import order

ORDER = order()
TALLY = ORDER.tally()

celery: Any = import_module("celery")
app = celery.Celery("bench", broker=ORDER.address)
app.conf.update(
    task_default_queue=ORDER.queue,
    task_ignore_result=True,
    task_acks_late=True,
    worker_disable_rate_limits=True,
    worker_enable_remote_control=False,
    worker_prefetch_multiplier=ORDER.choice["prefetch"],
    broker_connection_retry_on_startup=True,
)


@app.task(name="visit")  # type: ignore[untyped-decorator]
def visit(url: str) -> None:
    """Do nothing but count."""
    TALLY()


def fill(urls: Sequence[str]) -> float:
    """Send the jobs over one connection and return the seconds that it took."""
    with app.producer_or_acquire() as producer:
        began = time.monotonic()
        for url in urls:
            visit.apply_async((url,), producer=producer)
        return time.monotonic() - began
