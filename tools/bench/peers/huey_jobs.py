"""huey: a Redis list, no results, and a blocking pop by each worker."""

import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tools.bench.peers.order import order

ORDER = order()
TALLY = ORDER.tally()

library: Any = import_module("huey")
huey = library.RedisHuey(ORDER.queue, url=ORDER.address, results=False)


@huey.task()  # type: ignore[untyped-decorator]
def visit(url: str) -> None:
    """Do nothing but count."""
    TALLY()


def fill(urls: Sequence[str]) -> float:
    """Send the jobs over one connection and return the seconds that it took."""
    began = time.monotonic()
    for url in urls:
        visit(url)
    return time.monotonic() - began
