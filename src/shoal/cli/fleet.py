"""`shoal fleet`: look whether all is well, show who does what, ask, and start many workers."""

import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import options
from shoal.cli.asking import ask, first
from shoal.cli.console import complain, console, counted, duration, escaped, put_json, put_table, say
from shoal.cli.crew import CrewOptions, takes_crew
from shoal.cli.exits import Exit
from shoal.cli.retyped import go_on_command, remembers
from shoal.cli.sources import SOURCES, takes_sources

if TYPE_CHECKING:
    from shoal.core.model import EnqueueReport
    from shoal.fleet.doctor import Finding
    from shoal.fleet.launch import Job, Summary
    from shoal.fleet.lineup import Lineup
    from shoal.fleet.seeds import Seeds
    from shoal.queue.contract import Queue

NEWEST = "newest"
DEFAULT_STAGGER = "2s"
TEST_WORKERS, TEST_PAGES = 2, 20
MOST_SHOWN = 60  # characters of what a worker serves, in a terminal


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that was filled, and what its workers are about to do."""

    lineup: "Lineup"
    enqueued: "EnqueueReport"
    refused: int
    findings: "list[Finding]"
    is_new: bool  # whether the run was made here


@remembers(sources=SOURCES)
@takes_sources
@takes_crew(log_dir="logs")
def fleet(
    scraper: options.Scraper,
    seeds: "Seeds",
    *,
    test: Annotated[
        bool, typer.Option("--test", help="Try it out: two workers, and at most 20 pages.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")] = False,
    stagger: Annotated[
        str,
        typer.Option("--stagger", help="How long after one worker the next one starts.", metavar="TIME"),
    ] = DEFAULT_STAGGER,
    rejects: options.Rejects = None,
    invalid: options.Invalid = "skip",
    dedup: options.Dedup = None,
    queue: options.Queue = options.DEFAULT_QUEUE,
    out: options.Out = None,
    resume: options.Resume = None,
    run_id: options.NewRunId = None,
    crew: CrewOptions,
    as_json: options.Json = False,
) -> None:
    """Check the machine, fill a run, show which worker does what, ask, and start them one by one.

    Example: shoal fleet books.py --workers 10 --urls-file urls.csv --partition state --partitions auto
    """
    from shoal.cli.job import nursery_for
    from shoal.core.values import read_duration

    if not (seeds or resume):
        complain(f"Nothing to begin with. Run: shoal fleet {scraper} --workers 10 --url https://…")
        raise typer.Exit(Exit.USAGE)
    # What a test has queued must not be left out by the run that follows.
    changes = [f"max_pages={TEST_PAGES}", "dedup=off"] if test else options.setting("dedup", dedup)
    few: dict[str, Any] = {"workers": TEST_WORKERS, "batch": 1}
    job = crew.job(
        scraper,
        queue,
        nursery=nursery_for(queue),
        urls=list(seeds.urls),
        stagger=read_duration("--stagger", stagger),
        has_data=as_json or out == "-",
        changes=changes,
        **(few if test else {}),
    )
    refuse_unfit(examined(job), as_json)
    wanted = run_id if resume is None or resume == NEWEST else resume
    ready = ask(
        queue,
        lambda opened: prepare(opened, job, seeds, rejects, wanted, resume is not None, test, invalid),
    )
    refuse_unfit(ready.findings, as_json, None if ready.is_new else waiting_words(job, ready.lineup))
    if not as_json:
        show(ready.lineup, warn=not test)
    if not (yes or as_json or start_wanted(job, ready.lineup)):
        raise typer.Exit(Exit.PARTIAL)
    summary = ask(queue, lambda opened: carry_out(opened, job, ready, out, as_json))
    if as_json:
        put_json(summary.as_json() | {"plan": [part.as_json() for part in ready.lineup.parts]})
    raise typer.Exit(conclude(summary, out, job, test=test, silent=as_json))


def conclude(summary: "Summary", out: str | None, job: "Job", *, test: bool, silent: bool) -> Exit:
    """Say how it went, and return what the shell is told; what a test leaves undone is no fault."""
    from shoal.cli.run import closing_words, exit_code
    from shoal.fleet.retyping import typed_on

    if not test:
        if not silent:
            say(closing_words(summary, out, job))
        return exit_code(summary)
    stats = summary.snapshot.stats
    if not silent:
        done = f"{counted(stats.completed, 'page')}, {counted(stats.items, 'item')}"
        say(f"Tested: {done}, {counted(stats.dead, 'dead letter')} in {duration(summary.seconds)}.")
        for failure in summary.ending.failures:
            complain(failure)
        look = typed_on(job.queue_url, f"status {summary.run.id}")
        say(f"Look:     {look}\nAll of it: the same command without --test")
    return Exit.FAILED if summary.ending.failed else Exit.PARTIAL if stats.dead else Exit.OK


def examined(job: "Job") -> "list[Finding]":
    """Return what the doctor finds."""
    import uvloop

    from shoal.fleet.doctor import examine

    async def looked() -> "list[Finding]":
        return [finding async for finding in examine(job.queue_url, job.scraper)]

    return uvloop.run(looked())


def is_unfit(findings: "list[Finding]") -> bool:
    """Tell whether something is bad."""
    from shoal.fleet.doctor import Health

    return any(found.health is Health.BAD for found in findings)


def refuse_unfit(findings: "list[Finding]", as_json: bool, more: str | None = None) -> None:
    """Say what is poor, and end the command where something is bad; with what to type next."""
    from shoal.fleet.doctor import Health

    poor = [found for found in findings if found.health is not Health.GOOD]
    if not as_json:
        for found in poor:
            colour = "red" if found.health is Health.BAD else "yellow"
            console().print(f"[{colour}]{found.what}, {found.health}:[/] {escaped(found.says)}")
    bad = [found for found in poor if found.health is Health.BAD]
    if bad:
        if as_json:
            put_json({"error": "Unfit", "message": "; ".join(f"{one.what}: {one.says}" for one in bad)})
        complain(f"Nothing was started. Mend first: {', '.join(found.what for found in bad)}.")
        if more and not as_json:
            say(more)
        raise typer.Exit(Exit.FAILED)


async def prepare(
    queue: "Queue",
    job: "Job",
    seeds: "Seeds",
    rejects: str | None,
    run_id: str | None,
    resume: bool,
    test: bool,
    invalid: str = "skip",
) -> Prepared:
    """Make the run or find it, fill it, and look what there is to do; raises ScraperBusy."""
    from shoal.cli.seeds import Refused
    from shoal.fleet.doctor import partitions_complete
    from shoal.fleet.launch import lock_of, open_run
    from shoal.fleet.lifecycle import is_new, kept_if_accepted, take_back
    from shoal.fleet.lineup import line_up

    fresh = not resume and await is_new(queue, run_id)
    async with AsyncExitStack() as stack:
        lock = await stack.enter_async_context(lock_of(queue, job, run_id))
        run = await open_run(queue, job.scraper, run_id=run_id, resume=resume)
        await stack.enter_async_context(kept_if_accepted(queue, run, is_new=fresh))
        await lock.name_run(run.id)
        with Refused(rejects, invalid) as refused:
            async with refused.feed(queue, job, seeds, run) as feed:
                tasks = first(aiter(feed), TEST_PAGES) if test else feed
                enqueued = await queue.enqueue(run.id, tasks, on_invalid=feed.invalid)
        names = (await queue.stats(run.id)).partitions
        findings = [partitions_complete(job.homes, names, run.id)] if job.homes else []
        ready = Prepared(await line_up(queue, job, run), enqueued, refused.count, findings, fresh)
    if is_unfit(findings) and fresh:
        await take_back(queue, run)
    return ready


def show(lineup: "Lineup", *, warn: bool) -> None:
    """Show a person which worker is to do what."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("worker", "serves", "pending", "ETA"):
        table.add_column(name, justify="left" if name == "serves" else "right", no_wrap=True)
    for part in lineup.parts:
        is_cut = len(part.serves) > MOST_SHOWN and sys.stderr.isatty()
        serves = f"{part.serves[: MOST_SHOWN - 1]}…" if is_cut else part.serves
        eta = f"≥ {duration(part.eta.total_seconds())}" if part.eta is not None else "-"
        table.add_row(str(part.worker), escaped(serves), f"{part.pending:,}", eta)
    load = lineup.load
    hosts = "10,000+ hosts" if load.hosts > 10_000 else counted(load.hosts, "host")
    say(f"Run {lineup.run.id}: {counted(load.remaining, 'task')} on {hosts}")
    put_table(table)
    if warn and lineup.warning:
        console().print(f"[yellow]{escaped(lineup.warning)}")


def start_wanted(job: "Job", lineup: "Lineup") -> bool:
    """Ask whether to start; without a terminal nobody is there to be asked."""

    if not sys.stdin.isatty():
        return True
    if typer.confirm(f"Start {counted(len(lineup.parts), 'worker')}?", default=True, err=True):
        return True
    say(f"Nothing was started; the tasks wait.\n{waiting_words(job, lineup)}")
    return False


def waiting_words(job: "Job", lineup: "Lineup") -> str:
    """Return what to type for a run that was filled, and that nobody works on."""
    from shoal.fleet.retyping import typed_on

    run_id = lineup.run.id
    forget = typed_on(job.queue_url, f"purge {run_id}")
    return f"Start:    {go_on_command(job, run_id)}\nForget:   {forget}"


async def carry_out(queue: "Queue", job: "Job", ready: Prepared, out: str | None, as_json: bool) -> "Summary":
    """Start the workers, and show how they get on until the end."""
    from shoal.cli.live import Show
    from shoal.cli.stopping import obey_signals
    from shoal.fleet.launch import launch
    from shoal.fleet.lifecycle import kept_if_accepted
    from shoal.fleet.outlet import Outlet

    run = ready.lineup.run
    outlet = Outlet(queue, run.id, out)
    async with kept_if_accepted(queue, run, is_new=ready.is_new):
        with Show(as_json=as_json, logs=job.logs) as shown:
            summary = await launch(
                queue,
                job,
                run,
                shown,
                on_crew=lambda crew: obey_signals(crew, shown.said),
                outlet=outlet,
            )
    more: dict[str, Any] = {"enqueued": ready.enqueued, "refused": ready.refused}
    return replace(summary, **more)
