"""`shoal fleet`: check, preview, confirm, and start many workers."""

import sys
from shlex import quote
from typing import Annotated, Any

import msgspec
import typer
import uvloop
from msgspec.structs import replace
from rich import box
from rich.table import Table

from shoal.cli.commands.crawl.run import exit_code, summary_text
from shoal.cli.console import counted, duration, print_error, put_json, put_message, say
from shoal.cli.exits import Exit
from shoal.cli.left_out import first_error_lines
from shoal.cli.open_queue import with_queue
from shoal.cli.options import common
from shoal.cli.options.sources import choose_seeds, start_options, takes_sources
from shoal.cli.options.workers import WorkerOptions, fork_server_for, takes_worker_options
from shoal.cli.progress import ProgressView
from shoal.cli.resume_command import resume_command
from shoal.cli.signals import obey_signals
from shoal.cli.tables import put_table
from shoal.cli.terminal import console, escaped
from shoal.core.errors import InvalidInput
from shoal.core.model import SECOND
from shoal.core.tasks import first
from shoal.core.values import read_duration
from shoal.fleet.command_hints import command_on
from shoal.fleet.job import Job
from shoal.fleet.run.launch import Summary, launch
from shoal.fleet.run.lifecycle import discard, discarded_if_refused
from shoal.fleet.run.open_run import OpenedRun, RunEnqueueReport, StartOptions, lock_of, open_run
from shoal.fleet.run.results import Output, ResultWriter, check_output
from shoal.fleet.scale.preview import LaunchPreview, preview_launch
from shoal.fleet.sources.declared import mark_seeded
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.doctor import CheckResult, CheckStatus, examine, partitions_complete
from shoal.fleet.status.find import AUTO
from shoal.queue.address import shown_queue
from shoal.queue.contract import Queue
from shoal.scrape.settings.declaration import FETCHING, SEEDS
from shoal.worker.left_out import TEST, note_cuts

DEFAULT_STAGGER = "2s"
TEST_WORKERS, TEST_PAGES = 2, 20
MAX_SERVES_WIDTH = 60  # characters of the `serves` column, in a terminal


class Prepared(msgspec.Struct, frozen=True):
    """A filled run and the preview of its workers."""

    lineup: "LaunchPreview"
    job: "Job"  # with the settings of the run
    enqueued: RunEnqueueReport
    findings: "list[CheckResult]"
    is_new: bool  # whether this command created the run


@takes_sources
@takes_worker_options(sections=(FETCHING, SEEDS), log_dir="logs")
def fleet(
    scraper: common.Scraper,
    seeds: "Seeds",
    *,
    test: Annotated[bool, typer.Option("--test", help="Test run: two workers, at most 20 pages.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start without asking for confirmation.")] = False,
    stagger: Annotated[
        str,
        typer.Option("--stagger", help="Delay between the starts of two workers.", metavar="TIME"),
    ] = DEFAULT_STAGGER,
    args: common.Args = None,
    rejects: common.Rejects = None,
    invalid: common.Invalid = "skip",
    queue: common.Queue = common.DEFAULT_QUEUE,
    out: common.Out = None,
    overwrite: common.Overwrite = False,
    append: common.Append = False,
    resume: common.Resume = None,
    run_id: common.NewRunId = None,
    worker_options: WorkerOptions,
    as_json: common.Json = False,
) -> None:
    """Check this machine, fill a run, show the plan for each worker, ask you to confirm, and start them.

    Example: shoal fleet books.py --workers 10 --urls-file urls.csv --partition state --partitions auto
    """
    # The real run must not skip what the test queued.
    changes = [f"max_pages={TEST_PAGES}", "dedup=off"] if test else []
    few: dict[str, Any] = {"workers": TEST_WORKERS, "batch": 1}
    job = worker_options.job(
        scraper,
        queue,
        fork_server=fork_server_for(queue),
        urls=seeds.addresses,
        args=args,
        stagger=read_duration("--stagger", stagger),
        has_data=as_json or out == "-",
        reports_warnings=as_json,
        changes=changes,
        **(few if test else {}),
    )
    seeds = choose_seeds(seeds, job, resume=resume is not None, as_json=as_json)
    if not seeds and resume in (None, AUTO):
        words = f"fleet {quote(scraper)} --workers 10 --url https://…"
        raise InvalidInput(f"No URLs to start with. Run: {command_on(queue, words)}")
    exit_if_unfit(run_checks(job), as_json)
    start = start_options(rejects, invalid, run_id=run_id, resume=resume, as_json=as_json)
    output = Output(out, overwrite=overwrite, append=append)
    ready = with_queue(
        queue,
        lambda opened: prepare(opened, job, seeds, start, output=output, test=test, as_json=as_json),
    )
    job = ready.job
    exit_if_unfit(ready.findings, as_json, None if ready.is_new else next_steps(job, ready.lineup))
    if not as_json:
        show(ready.lineup, warn=not test)
    if not (yes or as_json or confirm_start(job, ready.lineup)):
        raise typer.Exit(Exit.PARTIAL)
    summary = with_queue(queue, lambda opened: carry_out(opened, ready, output, as_json=as_json))
    if as_json:
        plan = [part.as_json() for part in ready.lineup.parts]
        put_json(summary.as_json() | {"queue": shown_queue(queue), "plan": plan})
    raise typer.Exit(conclude(summary, out, job, test=test, silent=as_json))


def conclude(summary: "Summary", out: str | None, job: "Job", *, test: bool, silent: bool) -> Exit:
    """Print the summary and return the exit code; tasks that a test leaves unfinished are no failure."""
    if not test:
        if not silent:
            say(summary_text(summary, out))
        return exit_code(summary)
    stats = summary.snapshot.stats
    if not silent:
        done = f"{counted(summary.snapshot.pages, 'page')}, {counted(stats.items, 'item')}"
        say(f"Tested: {done}, {counted(stats.dead, 'dead letter')} in {duration(summary.seconds)}.")
        for failure in summary.ending.failures:
            print_error(failure)
        for line in first_error_lines(summary.ending.tally):
            say(line)
        look = command_on(job.queue_url, f"status {summary.run.id}")
        say(f"Details:  {look}\nFull run: the same command without --test")
    return Exit.FAILED if summary.ending.failed else Exit.PARTIAL if stats.dead or stats.lost else Exit.OK


def run_checks(job: "Job") -> "list[CheckResult]":
    """Return the check results."""

    async def looked() -> "list[CheckResult]":
        return [finding async for finding in examine(job.queue_url, job.scraper)]

    return uvloop.run(looked())


def is_unfit(findings: "list[CheckResult]") -> bool:
    """Return whether a check failed."""
    return any(found.health is CheckStatus.BAD for found in findings)


def exit_if_unfit(findings: "list[CheckResult]", as_json: bool, more: str | None = None) -> None:
    """Print failed checks and warnings; exit if a check failed, with what to type next."""
    poor = [found for found in findings if found.health is not CheckStatus.GOOD]
    if not as_json:
        for found in poor:
            colour = "red" if found.health is CheckStatus.BAD else "yellow"
            console().print(f"[{colour}]{found.what}, {found.health}:[/] {escaped(found.says)}")
    bad = [found for found in poor if found.health is CheckStatus.BAD]
    if bad:
        if as_json:
            put_json({"error": "Unfit", "message": "; ".join(f"{one.what}: {one.says}" for one in bad)})
        print_error(f"Nothing was started. Fix these first: {', '.join(found.what for found in bad)}.")
        if more and not as_json:
            say(more)
        raise typer.Exit(Exit.FAILED)


async def prepare(
    queue: Queue,
    job: Job,
    seeds: Seeds,
    options: StartOptions,
    *,
    output: Output,
    test: bool = False,
    as_json: bool = False,
) -> Prepared:
    """Create or find the run, fill it, and preview the work; raises ScraperBusy."""
    options = replace(options, lock=lock_of(queue, job, options.run_id))
    async with open_run(queue, job, seeds, options) as opened:
        job, run, is_new = opened.job, opened.run, opened.is_new
        for notice in opened.notices:
            (put_message if as_json else say)(notice)
        if output.path:
            check_output(output.path, output.mode(is_new=is_new))
        enqueued = await opened.enqueue(
            first(aiter(opened.feed), TEST_PAGES) if test and opened.feed else None
        )
        if test:
            await mark_seeded(queue, run.id)  # the rest is left out on purpose
            await note_cuts(queue, run.id, [TEST])  # so that no other run is compared with it
        names = (await queue.stats(run.id)).partitions
        findings = [partitions_complete(job.homes, names, f"run {run.id}")] if job.homes else []
        lineup = await preview_launch(queue, job, run)
    if is_unfit(findings) and is_new:
        await discard(queue, run)
    return Prepared(lineup, job, enqueued, findings, is_new)


def show(lineup: "LaunchPreview", *, warn: bool) -> None:
    """Print the plan of each worker."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("worker", "serves", "pending", "ETA"):
        table.add_column(name, justify="left" if name == "serves" else "right", no_wrap=True)
    for part in lineup.parts:
        is_cut = len(part.serves) > MAX_SERVES_WIDTH and sys.stderr.isatty()
        serves = f"{part.serves[: MAX_SERVES_WIDTH - 1]}…" if is_cut else part.serves
        eta = f"≥ {duration(part.eta.total_seconds())}" if part.eta and part.eta >= SECOND else "-"
        table.add_row(str(part.worker), escaped(serves), f"{part.pending:,}", eta)
    load = lineup.load
    hosts = "10,000+ hosts" if load.hosts > 10_000 else counted(load.hosts, "host")
    say(f"Run {lineup.run.id}: {counted(load.remaining, 'task')} on {hosts}")
    put_table(table)
    if warn and lineup.warning:
        console().print(f"[yellow]{escaped(lineup.warning)}")


def confirm_start(job: "Job", lineup: "LaunchPreview") -> bool:
    """Ask for confirmation; where stdin is empty, as in cron, start right away."""
    sys.stderr.write(f"Start {counted(len(lineup.parts), 'worker')}? [Y/n]: ")
    sys.stderr.flush()
    reply = sys.stdin.readline()
    if not reply and sys.stdin.isatty():  # Ctrl-D
        raise typer.Abort
    if reply.strip().lower() in ("", "y", "yes"):
        return True
    say(f"Nothing was started; the tasks stay queued.\n{next_steps(job, lineup)}")
    return False


def next_steps(job: "Job", lineup: "LaunchPreview") -> str:
    """Return what to type for a filled run that no worker was started on."""
    run_id = lineup.run.id
    delete = command_on(job.queue_url, f"purge {run_id}")
    return f"Start:    {resume_command(job, run_id)}\nDelete:   {delete}"


async def carry_out(queue: Queue, ready: Prepared, output: Output, *, as_json: bool) -> Summary:
    """Start the workers and show progress until the end."""
    run, job = ready.lineup.run, ready.job
    results = ResultWriter(queue, run.id, output.path, output.mode(is_new=ready.is_new))
    async with discarded_if_refused(queue, run, is_new=ready.is_new):
        with ProgressView(as_json=as_json, logs=job.logs, queue_url=job.queue_url) as shown:
            summary = await launch(
                OpenedRun(queue, run, job),
                shown,
                on_pool=lambda pool: obey_signals(pool, shown.on_message),
                results=results,
            )
    return replace(summary, enqueued=ready.enqueued)
