"""`shoal metrics`: Prometheus metrics of a queue."""

import asyncio
import signal
import sys
from typing import Annotated

import typer

from shoal.cli.console import say
from shoal.cli.open_queue import with_queue
from shoal.cli.options import common
from shoal.fleet.telemetry.metrics import QueueMetrics, need_library
from shoal.fleet.telemetry.setup import MetricsServer, read_address
from shoal.queue.contract import Queue


def metrics(
    listen: Annotated[
        str | None,
        typer.Option("--listen", help="Serve the metrics at this address until Ctrl-C.", metavar="HOST:PORT"),
    ] = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
) -> None:
    """Print the Prometheus metrics of a whole queue, or serve them with --listen.

    One such process is enough for a fleet. Workers serve their own metrics: shoal work --metrics.

    Example: shoal metrics --listen 0.0.0.0:9464 --queue postgresql://db/shoal
    """

    need_library()
    address = read_address("--listen", listen) if listen else None
    with_queue(queue, lambda opened: _serve(opened, address))


async def _serve(queue: "Queue", address: tuple[str, int] | None) -> None:
    found = QueueMetrics(queue)
    if address is None:
        sys.stdout.write((await found.text()).decode())
        return
    leave = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, leave.set)
    async with MetricsServer(address, found.text) as server:
        say(f"Serving metrics at {server.url} (Ctrl-C to stop)")
        await leave.wait()
