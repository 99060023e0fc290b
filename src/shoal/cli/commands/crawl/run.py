"""`shoal run`: enqueue, work with live progress, write the results, print a summary."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from shlex import quote

import typer
from msgspec.structs import replace

from shoal.cli.closing_lines import left_out_lines
from shoal.cli.commands.crawl.cache_options import check_settings, playback_seeds
from shoal.cli.commands.crawl.enqueue import fill, report
from shoal.cli.configuration import current_project
from shoal.cli.console import counted, duration, put_json, say
from shoal.cli.exits import Exit
from shoal.cli.left_out import (
    error_lines,
    file_words,
    first_error_lines,
    hook_lines,
    item_lines,
    stats_lines,
)
from shoal.cli.open_queue import with_queue
from shoal.cli.options import common
from shoal.cli.options.sources import choose_seeds, start_options, takes_sources
from shoal.cli.options.workers import WorkerOptions, fork_server_for, takes_worker_options
from shoal.cli.progress import ProgressView
from shoal.cli.quality import outcome_lines, says_why
from shoal.cli.resume_command import resume_command
from shoal.cli.signals import obey_signals
from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidInput
from shoal.core.model import ReportedState, Run, RunState
from shoal.export.tables.address import display_location
from shoal.fleet.command_hints import (
    PAGE_LIMIT,
    command_for_job,
    command_on,
    command_to_resume,
    export_command,
    needs_secret,
)
from shoal.fleet.job import Job
from shoal.fleet.run.launch import Summary, launch
from shoal.fleet.run.open_run import StartOptions, lock_of, open_run
from shoal.fleet.run.pool import WorkerPool
from shoal.fleet.run.results import Output, ResultWriter
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.at_work import has_workers
from shoal.fleet.status.find import AUTO
from shoal.fleet.status.progress import Snapshot
from shoal.queue.address import shown_queue
from shoal.queue.contract import Queue
from shoal.scrape.settings.declaration import FETCHING, RECORDING, SEEDS
from shoal.scrape.step import discarded_calls
from shoal.worker.counters import format_counts, postponed_words


async def start_notices(queue: "Queue", job: "Job", run: "Run", *, is_new: bool) -> AsyncIterator[str]:
    """Yield each notice with the command to type."""
    if is_new and (earlier := await _unfinished_before(queue, run)):
        left = counted((await queue.stats(earlier.id)).remaining, "task")
        again = await command_to_resume(queue, job.queue_url, earlier)
        yield (
            f"Run {earlier.id} of {run.scraper} has {left} left, and no worker. This is a new run; "
            f"to continue that one, run: {again}"
        )
    for step in job.scraper.steps.values():
        for message in discarded_calls(step.name, step.function):
            yield f"Warning: {message}"
    others = [name for name in job.scraper.steps if job.steps and name not in job.steps]
    if others:
        elsewhere = command_for_job(
            job, "shoal", "work", job.name, "--run", run.id, "--steps", ",".join(others)
        )
        yield (
            f"With --steps {','.join(job.steps or ())}, tasks of {' and '.join(others)} wait for other "
            "workers. "
            f"To start one, run: {elsewhere}"
        )


async def _unfinished_before(queue: "Queue", run: "Run") -> "Run | None":
    """Return the newest earlier run of the scraper if it has tasks left, and no worker works on them."""
    earlier = next(
        (one for one in await queue.runs() if one.scraper == run.scraper and one.id != run.id), None
    )
    if earlier is None or earlier.state is not RunState.RUNNING or await has_workers(queue, earlier.id):
        return None
    return earlier if (await queue.stats(earlier.id)).remaining else None


ALLOW_PRIVATE = re.compile(r"--allow-private (\S+)")  # in the error of a worker

WEB_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
ANY_PAGE = "shoal.starter.any_page"  # the scraper of a URL alone


@takes_sources
@takes_worker_options(sections=(FETCHING, SEEDS, RECORDING))
def run(
    context: typer.Context,
    scraper: common.Scraper,
    seeds: "Seeds",
    *,
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
    debug: common.Debug = False,
    as_json: common.Json = False,
) -> None:
    """Run a scraper on this machine: enqueue, scrape with live progress, write the items.

    A URL in place of a scraper prints the title, text, links and structured data of that page; with
    `-a follow=yes`, of the pages that it links to on its host as well.

    Example: shoal run books.py --url https://example.com --workers 4 --out books.jsonl
    """
    if debug:
        from shoal.cli.commands.crawl.debug import check_options

        check_options(context)
    check_settings(worker_options.settings, resume=resume not in (None, AUTO))
    again = worker_options.settings.get("again") not in (None, AUTO)  # else the seeds are sources too
    address = scraper if WEB_ADDRESS.match(scraper) else None
    if address:
        scraper, seeds, out = ANY_PAGE, replace(seeds, urls=[address, *seeds.urls]), out or "-"
    typed, seeds = seeds, playback_seeds(seeds, worker_options.settings.get("playback"))
    job = worker_options.job(
        scraper,
        queue,
        fork_server=None if debug else fork_server_for(queue),
        urls=seeds.addresses,
        args=args,
        has_data=as_json or out == "-",
        reports_warnings=as_json,
    )
    declared = choose_seeds(typed, job, again=again, resume=resume is not None, as_json=as_json)
    seeds = declared or seeds
    if not (seeds or again or resume):
        raise _no_urls(job)
    start = start_options(rejects, invalid, run_id=run_id, resume=resume, as_json=as_json)
    if debug:
        from shoal.cli.commands.crawl.debug import debug as debug_run
        from shoal.cli.commands.crawl.debug import is_typed

        raise typer.Exit(
            debug_run(job, seeds, start, out, keeps_queue=is_typed(context, "queue") or resume is not None)
        )
    if job.scraper.settings.mode == "distributed" and worker_options.workers is None and not resume:
        # Its workers run elsewhere: print the command that starts them.
        report(with_queue(queue, lambda opened: fill(opened, job, seeds, start, as_json=as_json)), as_json)
        return
    output = Output(out, overwrite=overwrite, append=append)
    summary = with_queue(queue, lambda opened: carry_out(opened, job, seeds, start, output, as_json=as_json))
    if as_json:
        has_cache = summary.job.scraper.settings.cache
        put_json(
            summary.as_json()
            | {"queue": shown_queue(queue)}
            | ({"from_cache": summary.ending.tally.from_cache} if has_cache else {})
        )
    else:
        say(summary_text(summary, out))
        if address:
            say(f"Scraper:  shoal new NAME --from {quote(address)}")
    raise typer.Exit(exit_code(summary))


def _no_urls(job: Job) -> InvalidInput:
    again = command_on(job.queue_url, f"run {quote(job.reference)} --url https://…")
    return InvalidInput(f"No URLs to start with. Run: {again}")


async def carry_out(
    queue: Queue, job: Job, seeds: Seeds, options: StartOptions, output: Output, *, as_json: bool
) -> Summary:
    """Enqueue the seeds, run the workers with live progress, and write the results."""
    options = replace(options, lock=lock_of(queue, job, options.run_id))
    with ProgressView(as_json=as_json, logs=job.logs, queue_url=job.queue_url) as show:
        async with open_run(queue, job, seeds, options) as opened:
            if opened.is_new and not (seeds or opened.job.scraper.settings.begins_with):
                raise _no_urls(job)  # `--resume auto` has found no run to go on with
            results = ResultWriter(queue, opened.run.id, output.path, output.mode(is_new=opened.is_new))
            for notice in opened.notices:
                show.on_message(notice)
            async for notice in start_notices(queue, opened.job, opened.run, is_new=opened.is_new):
                show.on_message(notice)
            pools: list[WorkerPool] = []

            def begin(pool: WorkerPool) -> None:
                pools.append(pool)
                obey_signals(pool, show.on_message)

            try:
                async with _told(queue, show.on_message) as tell:
                    summary = await launch(opened, show, results=results, on_pool=begin)
                    await tell(summary)
                    return summary
            except asyncio.CancelledError:
                if not pools:
                    # Tasks enqueued so far are deduplicated when the command is repeated.
                    again = f"run the same command with --run {opened.run.id}"
                    show.on_message(f"Stopped while enqueueing. To continue, {again}")
                raise


@asynccontextmanager
async def _told(
    queue: Queue, say: Callable[[str], None]
) -> AsyncIterator[Callable[[Summary], Awaitable[None]]]:
    """Send messages inside the block; yield what tells of the end of the run."""
    project = current_project()
    if not project.notify:
        yield _tell_nobody
        return
    from shoal.fleet.notify.notifier import Notifier  # most runs do without

    async with Notifier(queue, project, say) as notifier:

        async def tell(summary: Summary) -> None:
            if verdict := summary.snapshot.verdict:
                await notifier.run_ended(summary.run.id, verdict, scraper=summary.run.scraper)

        yield tell


async def _tell_nobody(summary: Summary) -> None: ...


def summary_text(summary: Summary, out: str | None) -> str:
    """Return the closing lines: what was done and what to type next."""
    job, snapshot, run_id = summary.job, summary.snapshot, summary.run.id
    stats = snapshot.stats
    lines = [f"{_head(snapshot)}: {', '.join(_parts(summary))} in {duration(summary.seconds)}."]
    if snapshot.run.state is RunState.PARTIAL and not says_why(snapshot):
        reason = snapshot.run.reason.removesuffix(" reached")
        also = f" It counts {counted(snapshot.files.ended, 'download')} too." if snapshot.files.ended else ""
        lines.append(f"Stopped at {reason} with {counted(stats.remaining, 'task')} left.{also}")
    if summary.compared:
        lines.append(f"Compared with the earlier run: {summary.compared}.")
        lines.append(f"Changes:  {shoal_command(f'changes {run_id}')}")
    lines += [f"Failed: {failure}" for failure in dict.fromkeys(summary.ending.failures)]
    if not summary.ending.failed:  # else the hook is what failed
        lines += hook_lines(snapshot)
    lines += outcome_lines(snapshot, job.queue_url)
    tally = summary.ending.tally
    for words, counts in (
        ("Failed attempts", tally.errors),
        ("Postponed (no attempt used)", postponed_words(tally.postponed)),
    ):
        if counts:
            lines.append(f"{words}: {format_counts(counts)}.")
    lines += first_error_lines(tally)
    lines += error_lines(summary.findings, shown=tally.first_errors)
    lines += item_lines(summary.findings, snapshot, tally.first_page)
    lines += left_out_lines(snapshot, job, is_compared=summary.compared is not None)
    lines += stats_lines(snapshot)
    if snapshot.run.state is RunState.PARTIAL:
        more = _more_pages(summary, job) if PAGE_LIMIT.match(snapshot.run.reason) else None
        lines.append(f"More:     {resume_command(job, run_id, max_pages=more)}")
    elif stats.remaining and snapshot.state is not ReportedState.CANCELLED:
        private = dict.fromkeys(ALLOW_PRIVATE.findall("\n".join(summary.ending.failures)))
        others = summary.left_to_others
        again = resume_command(job, run_id, allow_private=private, without=others.kinds if others else ())
        if others:
            lines.append(f"Left: {others.text(job, run_id)}.")
        if snapshot.run.state is RunState.PAUSED:
            resume = command_on(job.queue_url, f"resume {run_id}")
            lines.append(f"The run is paused: its workers wait until you run: {resume}")
        lines.append(f"Resume:   {again}")
    elif hook_lines(snapshot):
        lines.append(f"Again:    {resume_command(job, run_id)}")
    if stats.dead:
        lines.append(f"Why:      {command_on(job.queue_url, f'dead list {run_id}')}")
    if stats.rejected:
        lines.append(f"Rejected: {command_on(job.queue_url, f'rejects {run_id}')}")
    if job.logs and not job.logs.is_stream:
        lines.append(f"Logs:     {job.logs.folder}")
    if out:
        lines.append(f"Results:  {'stdout' if out == '-' else display_location(out)}")
    elif stats.items:
        lines.append(f"Items:    {command_on(job.queue_url, f'items {run_id}')}")
        results = export_command(job.queue_url, run_id, f"{summary.run.scraper}.jsonl")
        lines.append(f"Results:  {results}")
    lines.append(f"Queue:    {shown_queue(job.queue_url)}")
    if any(map(needs_secret, lines)):
        lines.append("Before you type these commands, set SHOAL_QUEUE to the queue's URL with its password.")
    return "\n".join(lines)


def _head(snapshot: "Snapshot") -> str:
    if snapshot.state is ReportedState.PARTIAL and not says_why(snapshot):
        return "Partial"
    if not snapshot.stats.remaining:
        return "Done, but most tasks failed" if snapshot.stats.dead > snapshot.stats.completed else "Done"
    word = "Cancelled" if snapshot.state is ReportedState.CANCELLED else "Stopped"
    return f"{word} with {counted(snapshot.stats.remaining, 'task')} left"


def _parts(summary: "Summary") -> list[str]:
    stats, kept = summary.snapshot.stats, summary.ending.tally.from_cache
    parts = [counted(summary.snapshot.pages, "page"), counted(stats.items, "item")]
    parts += [f"{kept:,} from the cache"] if kept else []
    parts += file_words(summary.snapshot.files)
    parts += [f"{stats.rejected:,} rejected"] if stats.rejected else []
    parts += [f"{summary.snapshot.missing.count:,} missing"] if summary.snapshot.missing.count else []
    parts += [counted(stats.dead, "dead letter")] if stats.dead else []
    parts += [f"{stats.expired:,} expired"] if stats.expired else []
    parts += [f"{stats.lost:,} lost"] if stats.lost else []
    known = summary.enqueued.known
    parts += [f"{known:,} queued by earlier runs"] if known else []
    parts += [f"{summary.enqueued.invalid:,} invalid"] if summary.enqueued.invalid else []
    return parts


def _more_pages(summary: "Summary", job: "Job") -> int:
    stats = summary.snapshot.stats
    return stats.completed + stats.dead + (job.scraper.settings.max_pages or 0)


def exit_code(summary: "Summary") -> Exit:
    """Return the exit code for a summary."""
    if summary.ending.failed or any(record.has_failed for record in summary.snapshot.hooks.values()):
        return Exit.FAILED
    stats = summary.snapshot.stats
    if summary.queued_nothing:
        return Exit.USAGE
    if verdict := summary.snapshot.verdict:
        return Exit(verdict.exit_code)
    return Exit.PARTIAL if stats.dead or stats.lost or stats.remaining else Exit.OK
