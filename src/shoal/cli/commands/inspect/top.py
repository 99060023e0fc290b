"""`shoal top`: the runs, workers, hosts and errors of a queue on one live screen."""

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from shoal.cli.console import counted, duration, megabytes, put_json
from shoal.cli.open_queue import with_queue
from shoal.cli.options import common
from shoal.core.commands import shoal_command
from shoal.core.errors import QueueUnavailable
from shoal.core.model import HostStatus, ReportedState, WorkerState, WorkerStatus
from shoal.core.tasks import wait_for_event
from shoal.core.text import printable
from shoal.fleet.status.at_work import state_of
from shoal.fleet.status.overview import Overview, OverviewReader, worker_row
from shoal.fleet.status.progress import Snapshot
from shoal.fleet.status.rows.workers import join_names
from shoal.queue.address import shown_queue
from shoal.queue.contract import Queue

FIXED = 10  # lines that are not table rows: headers, gaps, title, errors
STATES: dict[str, str] = {
    ReportedState.RUNNING: "green",
    ReportedState.FINISHED: "dim",
    ReportedState.PAUSED: "yellow",
    ReportedState.WAITING: "yellow",
    ReportedState.STOPPED: "yellow",
    ReportedState.PARTIAL: "yellow",
    ReportedState.CANCELLED: "dim",
    WorkerState.LATE: "bold red",
    WorkerState.FROZEN: "bold red",
    WorkerState.DIED: "red",
    WorkerState.ENDED: "dim",
}

FIRST_INTERVAL_SECONDS = 0.5  # between the first two samples: a rate needs two
FILE_HEIGHT = 60  # lines of a screen that is written to a file
WIDE = 110  # characters; below, a few columns are left out


def screen(seen: Overview, url: str, *, width: int, height: int, trouble: str = "") -> RenderableType:
    """Return the whole screen; it has at most `height` lines."""
    rows = max(3, height - FIXED)
    some_hosts = min(len(seen.hosts), max(1, rows // 4))
    some_runs = min(len(seen.runs), max(1, rows // 4))
    some_workers = max(1, rows - some_hosts - some_runs)
    parts: list[RenderableType] = [_title(seen, url), Text()]
    is_wide = width >= WIDE
    parts += [_runs(seen.runs, some_runs, is_wide), Text()]
    parts += [_workers(seen.workers, some_workers, is_wide), Text()]
    parts += [_hosts(seen.hosts, some_hosts), Text(), _errors(seen, trouble)]
    return Group(*parts)


def _title(seen: Overview, url: str) -> Text:
    states = [state_of(worker) for worker in seen.workers]
    shown = (WorkerState.LATE, WorkerState.FROZEN, WorkerState.RUNNING)
    late, frozen, running = (states.count(state) for state in shown)
    rate = sum(snapshot.rate for snapshot in seen.runs)
    text = Text("shoal top", style="bold", no_wrap=True, overflow="ellipsis")
    text.append(f"   {counted(running, 'worker')}, {rate:,.1f} tasks/s", style="cyan")
    if late:
        text.append(f", {late} late: {shoal_command('stale')}", style="bold red")
    if frozen:
        text.append(f", {frozen} frozen", style="bold red")
    return text.append(f"   q quits   {clean(url)}", style="dim")


def _runs(runs: Sequence[Snapshot], most: int, is_wide: bool) -> RenderableType:
    if not runs:
        return Text(f"No runs yet. Start one with: {shoal_command('run FILE --url …')}", style="dim")
    more = ("active", "items") if is_wide else ()
    table = _table("RUN", "*scraper", "state", numbers=("done", "left", "dead", *more, "/s", "ETA"))
    for snapshot in runs[:most]:
        stats = snapshot.stats
        counts = [stats.completed, stats.pending + stats.delayed, stats.dead]
        counts += [stats.leased, stats.items] if is_wide else []
        table.add_row(
            _cell(snapshot.run.id),
            _cell(snapshot.run.scraper),
            _state(snapshot.state),
            *map(short, counts),
            f"{snapshot.rate:,.1f}",
            duration(snapshot.eta.total_seconds() if snapshot.eta else None),
        )
    return _with_rest(table, len(runs) - most)


def _workers(workers: Sequence[WorkerStatus], most: int, is_wide: bool) -> RenderableType:
    if not workers:
        return Text("No worker has sent a heartbeat in the last minute.", style="dim")
    texts = ("WORKER", "state", "*steps", *(("*partitions",) if is_wide else ()))
    more = ("failed",) if is_wide else ()
    table = _table(*texts, numbers=("active", "done", *more, "last hour", "memory", "beat"))
    for worker in workers[:most]:
        row = worker_row(worker)
        counts = [row.leased, row.completed, *([row.failed] if is_wide else []), row.last_hour]
        table.add_row(
            _cell(brief(row.worker_id, 34 if is_wide else 20)),
            _state(row.state),
            _cell(join_names(row.steps)),
            *([_cell(join_names(row.partitions))] if is_wide else []),
            *map(short, counts),
            megabytes(row.memory_bytes),
            duration(row.last_beat_seconds),
        )
    return _with_rest(table, len(workers) - most)


def _hosts(hosts: Sequence[HostStatus], most: int) -> RenderableType:
    if not hosts:
        return Text("No requests have been sent to any host yet.", style="dim")
    table = _table("*HOST", numbers=("waiting", "active", "done", "dead", "gap", "paused"))
    for host in hosts[:most]:
        counts = host.counts
        table.add_row(
            _cell(host.host),
            *map(short, (counts.pending + counts.delayed, counts.leased, counts.completed, counts.dead)),
            f"{host.delay.total_seconds():g} s" if host.delay else "-",
            duration(host.paused_for.total_seconds()) if host.paused_for else "-",
        )
    return _with_rest(table, len(hosts) - most)


def _errors(seen: Overview, trouble: str) -> Text:
    if trouble:
        return Text(clean(trouble), style="bold red", no_wrap=True, overflow="ellipsis")
    if not seen.errors:
        return Text("No errors.", style="dim")
    text = Text("ERRORS", style="bold", no_wrap=True, overflow="ellipsis")
    for name, count in seen.errors.items():
        text.append(f"   {clean(name)} ", style="yellow").append(f"{count:,}", style="default")
    return text


def short(number: int | None) -> str:
    """Return a number in at most six characters."""
    if number is None:
        return "-"
    if number < 100_000:
        return f"{number:,}"
    return f"{number / 1e3:,.0f}k" if number < 10_000_000 else f"{number / 1e6:,.0f}M"


def brief(worker_id: str, most: int) -> str:
    """Return a worker's id in at most `most` characters; the end is kept, since it makes the id unique."""
    if len(worker_id) <= most:
        return worker_id
    host, pid, chance = [*worker_id.rsplit("-", 2), "", ""][:3]
    end = f"-{pid}-{chance}"
    return f"{host[: max(0, most - len(end) - 1)]}…{end}"


def clean(text: object) -> str:
    """Return untrusted text without control characters."""
    return printable(str(text))


def _table(*texts: str, numbers: Sequence[str]) -> Table:
    """Return a table whose numbers are never cut; columns with stars share the remaining width."""
    table = Table(box=None, pad_edge=False, expand=True, header_style="bold")
    for name in texts:
        ratio = name.count("*") or None
        table.add_column(name.lstrip("*"), no_wrap=True, overflow="ellipsis", ratio=ratio)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _cell(text: str) -> Text:
    # rich would parse a plain str as markup.
    return Text(clean(text))


def _state(state: str) -> Text:
    return Text(clean(state), style=STATES.get(state, "default"))


def _with_rest(table: Table, more: int) -> RenderableType:
    if more > 0:
        table.columns[0].header = Text(f"{table.columns[0].header} (+{more:,} more)", style="bold")
    return table


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


async def _show(queue: Queue, url: str, every: float, once: bool, as_json: bool) -> None:
    console = Console(highlight=False)
    if console.is_terminal and sys.stdin.isatty() and not (once or as_json):
        await _live(queue, shown_queue(url), every, console)
        return
    reader = OverviewReader(queue)
    await reader.read()
    await asyncio.sleep(FIRST_INTERVAL_SECONDS)
    if not as_json:
        height = console.size.height if console.is_terminal else FILE_HEIGHT
        console.print(screen(await reader.read(), shown_queue(url), width=console.size.width, height=height))
        return
    while True:
        try:
            put_json((await reader.read()).row(), queue=shown_queue(url))
        except BrokenPipeError:
            # The reader of the pipe has ended, so what is left goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
        if once:
            return
        await asyncio.sleep(every)


async def _live(queue: Queue, url: str, every: float, console: Console) -> None:
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
