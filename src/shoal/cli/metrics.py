"""`shoal metrics`: what is in a queue, for Prometheus."""

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.cli.asking import ask
from shoal.cli.console import say

if TYPE_CHECKING:
    from shoal.queue.contract import Queue


def metrics(
    listen: Annotated[
        str | None,
        typer.Option("--listen", help="Serve them there until Ctrl-C.", metavar="HOST:PORT"),
    ] = None,
    queue: options.Queue = options.DEFAULT_QUEUE,
) -> None:
    """Write the metrics of a whole queue to stdout, or serve them for Prometheus.

    One such process is enough for a fleet. What single workers do is served by them: shoal work --metrics.

    Example: shoal metrics --listen 0.0.0.0:9464 --queue postgresql://db/shoal
    """
    from shoal.fleet.metrics import need_library
    from shoal.fleet.metrics_server import read_address

    need_library()
    address = read_address("--listen", listen) if listen else None
    ask(queue, lambda opened: _serve(opened, address))


async def _serve(queue: "Queue", address: tuple[str, int] | None) -> None:
    from shoal.fleet.metrics import QueueMetrics
    from shoal.fleet.metrics_server import MetricsServer

    found = QueueMetrics(queue)
    if address is None:
        sys.stdout.write((await found.text()).decode())
        return
    leave = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, leave.set)
    async with MetricsServer(address, found.text) as server:
        say(f"Metrics are at {server.url}")
        await leave.wait()
