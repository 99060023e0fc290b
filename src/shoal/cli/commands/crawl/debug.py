"""`shoal run --debug`: the whole run in this process and its terminal."""

import asyncio
import signal
import sys
from contextlib import AsyncExitStack, ExitStack, suppress
from typing import Any, NoReturn

import msgspec
import typer
from msgspec.structs import replace

from shoal.cli.closing_lines import left_out_lines
from shoal.cli.console import counted, put_json, say
from shoal.cli.exits import Exit
from shoal.cli.left_out import item_lines
from shoal.cli.open_queue import with_queue
from shoal.cli.progress import Printer
from shoal.core.errors import InvalidSetting
from shoal.core.model import ReportedState, Run, RunState
from shoal.fleet.job import Job
from shoal.fleet.run.inline_pool import DebugPool, temporary_queue
from shoal.fleet.run.launch import launch
from shoal.fleet.run.open_run import StartOptions, open_run
from shoal.fleet.run.results import ResultWriter
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.findings import RunFindings, read_findings
from shoal.fleet.status.progress import ProgressReader, Snapshot
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue


def debug(job: Job, seeds: Seeds, start: StartOptions, out: str | None, *, keeps_queue: bool) -> Exit:
    """Enqueue, work in this process until the first error of a step, and write or print the items."""
    with ExitStack() as stack:
        if not keeps_queue:
            job = replace(job, queue_url=stack.enter_context(temporary_queue()))
        debugged = Debugged(job, seeds, replace(start, keeps_empty=True))
        before = signal.signal(signal.SIGINT, _interrupt)
        try:
            # Not uvloop, which handles Ctrl-C only when its loop turns: a step may be running for long.
            with suppress(KeyboardInterrupt), asyncio.Runner() as runner:
                runner.run(debugged.work())
        finally:
            signal.signal(signal.SIGINT, before)
        if debugged.run is None:
            raise KeyboardInterrupt
        run_id = debugged.run.id
        snapshot, found = with_queue(job.queue_url, lambda queue: _write_items(queue, run_id, out))
    for line in closing_lines(snapshot, found, debugged):
        say(line)
    has_failed = debugged.has_failed or snapshot.stats.dead
    if snapshot.state is ReportedState.PARTIAL and not has_failed:
        return Exit.LIMIT_REACHED
    return Exit.PARTIAL if has_failed or snapshot.stats.remaining else Exit.OK


def _interrupt(*_: object) -> NoReturn:
    """Handle Ctrl-C as programs without an event loop do: at once, wherever it is."""
    raise KeyboardInterrupt


class Debugged(msgspec.Struct):
    """A run that is worked on in this process, one task at a time."""

    job: Job
    seeds: Seeds
    start: StartOptions
    run: Run | None = None  # once its tasks are enqueued
    pool: DebugPool | None = None

    @property
    def has_failed(self) -> bool:
        """Whether a step has ended the work with an error."""
        return self.pool is not None and self.pool.has_failed

    @property
    def first_page(self) -> str | None:
        """A page that a step was given."""
        return self.pool.tally.first_page if self.pool else None

    async def work(self) -> None:
        """Enqueue and work until the run is drained, a step fails, or Ctrl-C."""
        async with AsyncExitStack() as stack:
            queue = await stack.enter_async_context(open_queue(self.job.queue_url))
            opened = await stack.enter_async_context(open_run(queue, self.job, self.seeds, self.start))
            for notice in opened.notices:
                say(notice)
            if sys.stdin.isatty():
                say("Debugging in this process, one task at a time. Ctrl-C ends it; in the debugger, q does.")
            self.job, self.run = opened.job, opened.run
            await launch(opened, Printer(), make_pool=self._make_pool)

    def _make_pool(self, *args: Any, **options: Any) -> DebugPool:
        self.pool = DebugPool(*args, **options)
        return self.pool


def closing_lines(snapshot: Snapshot, found: RunFindings, debugged: Debugged) -> list[str]:
    """Return how the run ended, and what was rejected and left out: no other command can show it later."""
    stats, missing = snapshot.stats, snapshot.missing.count
    parts = [counted(snapshot.pages, "page"), counted(stats.items, "item")]
    parts += [f"{stats.rejected:,} rejected"] if stats.rejected else []
    parts += [f"{missing:,} missing"] if missing else []
    parts += [counted(stats.dead, "dead letter")] if stats.dead else []
    done, left = ", ".join(parts), counted(stats.remaining, "task")
    if debugged.has_failed:
        head = f"Stopped at the first error of a step, after {done}."
    elif snapshot.run.state is RunState.PARTIAL:
        head = f"Stopped at {snapshot.run.reason.removesuffix(' reached')} with {left} left: {done}."
    else:
        head = f"Stopped with {left} left: {done}." if stats.remaining else f"Done: {done}."
    items = item_lines(found, snapshot, debugged.first_page)
    return [head, *items, *left_out_lines(snapshot, debugged.job)]


# Options that a run in one process cannot obey, by parameter.
REFUSED = {
    "workers": "--workers",
    "concurrency": "--concurrency",
    "log_dir": "--log-dir",
    "metrics": "--metrics",
    "trace": "--trace",
    "again": "--again",
    "as_json": "--json",
}


def check_options(context: typer.Context) -> None:
    """Raise InvalidSetting for a typed option that would be ignored."""
    for name, option in REFUSED.items():
        if is_typed(context, name):
            raise InvalidSetting("--debug", f"runs one task at a time in this process; leave out {option}")


def is_typed(context: typer.Context, name: str) -> bool:
    """Return whether an option was typed; its value may also come from the environment or shoal.toml."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


async def _write_items(queue: "Queue", run_id: str, out: str | None) -> "tuple[Snapshot, RunFindings]":
    """Write the items to a file, or print them: a temporary queue does not keep them."""
    snapshot = await ProgressReader(queue, run_id).read(last=True)
    if out:
        async with ResultWriter(queue, run_id, out) as results:
            await results.finish(snapshot.stats.items)
    else:
        async for item in queue.items(run_id):
            put_json(item.data)
    return snapshot, await read_findings(queue, run_id, snapshot.stats)
