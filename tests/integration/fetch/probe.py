"""Fetches one URL in a separate process, and reports its cost: python -m … ENGINE URL."""

import asyncio
import json
import sys
import time
from pathlib import Path

from shoal.core.errors import FetchError
from shoal.core.http import Request
from shoal.fetch.egress import Egress
from shoal.fetch.http.engines import open_engine
from shoal.fetch.robots.robots import Robots

STATUS = Path("/proc/self/status")


async def main(engine: str, url: str) -> None:
    egress = Egress(["127.0.0.0/8"])
    fetcher = open_engine(engine, egress=egress, user_agent="shoal")
    before, started, error = _peak(), time.monotonic(), None
    try:
        if url.endswith("/robots.txt"):
            await Robots(fetcher, "shoal").check(url.replace("/robots.txt", "/page"))
        else:
            await fetcher.fetch(Request(url=url))
    except FetchError as exc:
        error = type(exc).__name__
    seconds = time.monotonic() - started
    print(json.dumps({"error": error, "grown": _peak() - before, "peak": _peak(), "seconds": seconds}))
    await fetcher.close()


def _peak() -> int:
    # Not getrusage, which includes the parent's peak from before this program started.
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


asyncio.run(main(*sys.argv[1:]))
