"""arq: no results, no log line for each job, uvloop, and no pause worth mentioning between two looks."""

import asyncio
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar

from tools.bench.peers.order import order

ORDER = order()
TALLY = ORDER.tally()
AT_ONCE = 100
LOGGING = {"version": 1, "disable_existing_loggers": False}

import_module("uvloop").install()
arq: Any = import_module("arq")
REDIS = import_module("arq.connections").RedisSettings.from_dsn(ORDER.address)


async def visit(context: dict[str, Any], url: str) -> None:
    """Do nothing but count."""
    TALLY()


class WorkerSettings:
    """What arq's command line reads."""

    functions: ClassVar[list[Any]] = [arq.func(visit, keep_result=0)]
    redis_settings = REDIS
    queue_name = ORDER.queue
    max_jobs = ORDER.choice["max_jobs"]
    poll_delay = 0.001


def fill(urls: Sequence[str]) -> float:
    """Send the jobs, many at once, and return the seconds that it took."""
    return asyncio.run(_fill(urls))


async def _fill(urls: Sequence[str]) -> float:
    pool = await arq.create_pool(REDIS, default_queue_name=ORDER.queue)
    began = time.monotonic()
    for first in range(0, len(urls), AT_ONCE):
        await asyncio.gather(*(pool.enqueue_job("visit", url) for url in urls[first : first + AT_ONCE]))
    seconds = time.monotonic() - began
    await pool.aclose()
    return seconds
