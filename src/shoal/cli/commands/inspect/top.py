"""`shoal top`: the runs, workers, hosts and errors of a queue on one live screen."""

import asyncio
import os
import signal
import stat
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TextIO

import typer
from rich.console import Console
from rich.live import Live

from shoal.cli.commands.inspect.top_screen import screen
from shoal.cli.console import put_json
from shoal.cli.open_queue import with_queue
from shoal.cli.options import common
from shoal.core.errors import QueueUnavailable
from shoal.core.tasks import wait_for_event
from shoal.fleet.status.overview import Overview, OverviewReader
from shoal.queue.address import shown_queue
from shoal.queue.contract import Queue

FIRST_INTERVAL_SECONDS = 0.5  # between the first two samples: a rate needs two
FILE_HEIGHT = 60  # lines of a screen that is written to a file


def top(
    queue: common.Queue = common.DEFAULT_QUEUE,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two updates.", metavar="N")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one screen and exit.")] = False,
    as_json: common.Json = False,
) -> None:
    """Show runs, workers, hosts and errors on one live screen. Quit with q or Ctrl-C.

    Without a terminal, print one screen. With --json, print one line per update until the reader of the pipe
    ends; with --json --once, print one line and exit.
    """
    with_queue(queue, lambda opened: _show(opened, queue, every, once, as_json))


async def _show(queue: "Queue", url: str, every: float, once: bool, as_json: bool) -> None:
    console = Console(highlight=False)
    if as_json:
        await _write_json(queue, shown_queue(url), every, once)
    elif once or not (console.is_terminal and sys.stdin.isatty()):
        await _write_once(queue, shown_queue(url), console)
    else:
        await _live(queue, shown_queue(url), every, console)


async def _write_json(queue: "Queue", url: str, every: float, once: bool) -> None:
    reader = OverviewReader(queue)
    if once:
        await reader.read()
        await asyncio.sleep(FIRST_INTERVAL_SECONDS)
    with reader_gone(sys.stdout) as gone:
        while not gone.is_set():
            put_json((await reader.read()).row(), queue=url)
            if once:
                return
            await wait_for_event(gone, every)


@contextmanager
def reader_gone(output: TextIO) -> Iterator[asyncio.Event]:
    """Yield an event that is set when nobody reads the pipe any more, before the next write would fail."""
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    try:
        pipe = output.fileno()
        is_pipe = stat.S_ISFIFO(os.fstat(pipe).st_mode)
    except (OSError, ValueError):  # it is no file, as in a test, or is closed
        is_pipe = False
    if not is_pipe:
        yield gone
        return
    # The end that is written to becomes "readable" only by the error of having no reader.
    loop.add_reader(pipe, gone.set)
    try:
        yield gone
    finally:
        loop.remove_reader(pipe)


async def _write_once(queue: "Queue", url: str, console: "Console") -> None:
    reader = OverviewReader(queue)
    await reader.read()
    await asyncio.sleep(FIRST_INTERVAL_SECONDS)
    height = console.size.height if console.is_terminal else FILE_HEIGHT
    console.print(screen(await reader.read(), url, width=console.size.width, height=height))


async def _live(queue: "Queue", url: str, every: float, console: "Console") -> None:
    reader, seen, trouble = OverviewReader(queue), Overview(), ""
    with _quit_event() as leave, Live(console=console, screen=True, auto_refresh=False) as live:
        wait = FIRST_INTERVAL_SECONDS
        while not leave.is_set():
            try:
                seen, trouble = await reader.read(), ""
            except QueueUnavailable as error:
                trouble = str(error)
            width, height = console.size
            live.update(screen(seen, url, width=width, height=height, trouble=trouble), refresh=True)
            await wait_for_event(leave, wait)
            wait = every


@contextmanager
def _quit_event() -> Iterator[asyncio.Event]:
    """Yield an event that is set on q or Ctrl-C; keys are read as they are pressed meanwhile."""
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
