"""`shoal run --debug`: the whole run in this process and its terminal."""

import sys
from contextlib import ExitStack, suppress
from dataclasses import replace

import typer

from shoal.cli.commands.crawl.enqueue import fill
from shoal.cli.commands.crawl.findings import item_lines
from shoal.cli.commands.crawl.run import NEWEST
from shoal.cli.console import counted, put_json, say
from shoal.cli.exits import Exit
from shoal.cli.left_out import left_out_lines
from shoal.cli.open_queue import with_queue
from shoal.core.errors import InvalidSetting
from shoal.core.model import ReportedState, Run, RunState
from shoal.fleet.job import Job
from shoal.fleet.run.debug import debug_session, temporary_queue
from shoal.fleet.run.results import ResultWriter
from shoal.fleet.run.settings import open_job
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.findings import RunFindings, read_findings
from shoal.fleet.status.progress import ProgressReader, Snapshot
from shoal.queue.contract import Queue
from shoal.worker.process.debug import DebugSession


def debug(
    job: "Job",
    seeds: "Seeds",
    *,
    out: str | None,
    rejects: str | None,
    invalid: str,
    resume: str | None,
    run_id: str | None,
    keeps_queue: bool,
) -> Exit:
    """Enqueue, work in this process until the first error of a step, and write or print the items."""
    with ExitStack() as stack:
        if not keeps_queue:
            job = replace(job, queue_url=stack.enter_context(temporary_queue()))
        job, run = with_queue(
            job.queue_url, lambda queue: _open(queue, job, seeds, rejects, invalid, resume, run_id)
        )
        session = debug_session(job, run, say)
        if sys.stdin.isatty():
            say("Debugging in this process, one task at a time. Ctrl-C ends it; in the debugger, q does.")
        with suppress(KeyboardInterrupt):
            session.run()
        snapshot, found = with_queue(job.queue_url, lambda queue: _write_items(queue, run.id, out))
    for line in closing_lines(snapshot, found, session, job):
        say(line)
    if snapshot.state is ReportedState.PARTIAL and not (session.failed or snapshot.stats.dead):
        return Exit.LIMIT_REACHED
    return Exit.PARTIAL if session.failed or snapshot.stats.dead or snapshot.stats.remaining else Exit.OK


def closing_lines(
    snapshot: "Snapshot", found: "RunFindings", session: "DebugSession", job: "Job"
) -> list[str]:
    """Return how the run ended, and what was rejected and left out: no other command can show it later."""
    stats, missing = snapshot.stats, snapshot.missing.count
    parts = [counted(snapshot.pages, "page"), counted(stats.items, "item")]
    parts += [f"{stats.rejected:,} rejected"] if stats.rejected else []
    parts += [f"{missing:,} missing"] if missing else []
    parts += [counted(stats.dead, "dead letter")] if stats.dead else []
    done, left = ", ".join(parts), counted(stats.remaining, "task")
    if session.failed:
        head = f"Stopped at the first error of a step, after {done}."
    elif snapshot.run.state is RunState.PARTIAL:
        head = f"Stopped at {snapshot.run.reason.removesuffix(' reached')} with {left} left: {done}."
    else:
        head = f"Stopped with {left} left: {done}." if stats.remaining else f"Done: {done}."
    items = item_lines(found, snapshot, session.tally.first_page)
    return [head, *items, *left_out_lines(snapshot, job)]


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


async def _open(
    queue: "Queue",
    job: "Job",
    seeds: "Seeds",
    rejects: str | None,
    invalid: str,
    resume: str | None,
    run_id: str | None,
) -> "tuple[Job, Run]":
    if resume is None:
        queued = await fill(queue, job, seeds, rejects, run_id, invalid)
        resume = queued["run_id"]
    opened = await open_job(queue, job, run_id=None if resume == NEWEST else resume, resume=True)
    return opened.job, opened.run


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
