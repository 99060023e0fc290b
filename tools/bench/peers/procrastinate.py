"""procrastinate: one job at a time per slot, over psycopg."""

import time
from importlib import import_module
from typing import Any

from tools.bench.child import Gate
from tools.bench.pages import HOSTS, url

BATCH = 1_000
SPARE = 3  # connections beside those of the running jobs


class App:
    """A procrastinate app with one task that does nothing but count."""

    def __init__(self, address: str, connections: int) -> None:
        # Typed as anything: types are checked without the peers, which only the benchmark installs.
        procrastinate: Any = import_module("procrastinate")
        connector = procrastinate.PsycopgConnector(
            conninfo=address, min_size=connections, max_size=connections
        )
        self.app = procrastinate.App(connector=connector)
        self.task = self.app.task(name="noop")(self._noop)
        self.done = 0

    async def _noop(self, url: str) -> None:
        self.done += 1


async def load(gate: Gate, *, number: int, address: str, jobs: int) -> dict[str, Any]:
    """Make the jobs."""
    peer = App(address, 1)
    async with peer.app.open_async():
        await peer.app.schema_manager.apply_schema_async()
        await gate()
        began = time.monotonic()
        for first in range(0, jobs, BATCH):
            numbers = range(first, min(first + BATCH, jobs))
            await peer.task.batch_defer_async(*({"url": url(n, HOSTS)} for n in numbers))
        return {"seconds": time.monotonic() - began}


async def work(gate: Gate, *, number: int, address: str, concurrency: int) -> dict[str, Any]:
    """Do jobs until none is left."""
    peer = App(address, concurrency + SPARE)
    async with peer.app.open_async():
        await gate()
        began = time.monotonic()
        await peer.app.run_worker_async(
            concurrency=concurrency, wait=False, listen_notify=False, install_signal_handlers=False
        )
        return {"tasks": peer.done, "began": began, "ended": time.monotonic()}
