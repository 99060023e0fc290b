"""`shoal top`: the runs, workers, hosts and errors of a queue on one screen, as they change."""

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.cli.asking import ask
from shoal.cli.console import put_json

if TYPE_CHECKING:
    from rich.console import Console

    from shoal.queue.contract import Queue

FIRST_LOOK = 0.5  # seconds between the first two: a rate needs two
ROOMY = 60  # lines of a screen that is written to a file


def top(
    queue: options.Queue = options.DEFAULT_QUEUE,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.", metavar="N")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Write one screen, and end.")] = False,
    as_json: options.Json = False,
) -> None:
    """Show runs, workers, hosts and errors on one screen, live. Leave with q or Ctrl-C.

    Where there is no terminal, one screen is written. With --json a line for each look, once with --once.
    """
    ask(queue, lambda opened: _show(opened, queue, every, once, as_json))


async def _show(queue: "Queue", url: str, every: float, once: bool, as_json: bool) -> None:
    from rich.console import Console

    from shoal.core.redact import redacted

    console = Console(highlight=False)
    if as_json:
        await _write_json(queue, every, once)
    elif once or not (console.is_terminal and sys.stdin.isatty()):
        await _write_once(queue, redacted(url), console)
    else:
        await _live(queue, redacted(url), every, console)


async def _write_json(queue: "Queue", every: float, once: bool) -> None:
    from shoal.fleet.overview import Glances

    glances = Glances(queue)
    if once:
        await glances.look()
        await asyncio.sleep(FIRST_LOOK)
    while True:
        put_json((await glances.look()).as_json())
        if once:
            return
        await asyncio.sleep(every)


async def _write_once(queue: "Queue", url: str, console: "Console") -> None:
    from shoal.cli.screen import screen
    from shoal.fleet.overview import Glances

    glances = Glances(queue)
    await glances.look()
    await asyncio.sleep(FIRST_LOOK)
    height = console.size.height if console.is_terminal else ROOMY
    console.print(screen(await glances.look(), url, width=console.size.width, height=height))


async def _live(queue: "Queue", url: str, every: float, console: "Console") -> None:
    from rich.live import Live

    from shoal.cli.screen import screen
    from shoal.core.errors import QueueUnavailable
    from shoal.fleet.overview import Glances, Overview

    glances, seen, trouble = Glances(queue), Overview(), ""
    with _leaving() as leave, Live(console=console, screen=True, auto_refresh=False) as live:
        wait = FIRST_LOOK
        while not leave.is_set():
            try:
                seen, trouble = await glances.look(), ""
            except QueueUnavailable as error:
                trouble = str(error)
            width, height = console.size
            live.update(screen(seen, url, width=width, height=height, trouble=trouble), refresh=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await leave.wait()
            wait = every


@contextmanager
def _leaving() -> Iterator[asyncio.Event]:
    """Yield what is set when a person wants to leave; keys are read as they are pressed meanwhile."""
    loop, leave, keys = asyncio.get_running_loop(), asyncio.Event(), sys.stdin.fileno()
    before = termios.tcgetattr(keys)

    def pressed() -> None:
        typed = os.read(keys, 64)
        if not typed or b"q" in typed.lower():
            leave.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leave.set)
    tty.setcbreak(keys)
    loop.add_reader(keys, pressed)
    try:
        yield leave
    finally:
        loop.remove_reader(keys)
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
