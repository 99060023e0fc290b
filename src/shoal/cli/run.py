"""`shoal run`: enqueue, work with live progress, write the results, and say how it went."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from shoal.cli import options
from shoal.cli.asking import ask
from shoal.cli.console import complain, counted, duration, put_json, say
from shoal.cli.crew import CrewOptions, takes_crew
from shoal.cli.enqueue import report
from shoal.cli.exits import Exit
from shoal.cli.retyped import go_on_command, remembers
from shoal.cli.sources import SOURCES, takes_sources
from shoal.core.model import RunState

if TYPE_CHECKING:
    from shoal.fleet.launch import Job, Summary
    from shoal.fleet.progress import Snapshot
    from shoal.fleet.seeds import Seeds
    from shoal.queue.contract import Queue

NEWEST = "newest"


@remembers(sources=(*SOURCES, "again"))
@takes_sources
@takes_crew()
def run(
    scraper: options.Scraper,
    seeds: "Seeds",
    *,
    rejects: options.Rejects = None,
    invalid: options.Invalid = "skip",
    dedup: options.Dedup = None,
    queue: options.Queue = options.DEFAULT_QUEUE,
    out: options.Out = None,
    resume: options.Resume = None,
    run_id: options.NewRunId = None,
    again: options.Again = None,
    cache: options.Cache = None,
    warc: options.Warc = None,
    replay: options.Replay = None,
    crew: CrewOptions,
    as_json: options.Json = False,
) -> None:
    """Run a scraper here: enqueue, work, write the items, and sum up.

    Example: shoal run books.py --url https://example.com --workers 4 --out books.jsonl
    """
    from shoal.cli.job import nursery_for
    from shoal.cli.keeping import as_changes, fill_again, replayed_seeds

    kept = as_changes(cache, warc, replay, again, resume=resume is not None)
    seeds = replayed_seeds(seeds, replay)
    if not (seeds or resume or again):
        complain(f"Nothing to begin with. Run: shoal run {scraper} --url https://…")
        raise typer.Exit(Exit.USAGE)
    job = crew.job(
        scraper,
        queue,
        nursery=nursery_for(queue),
        urls=list(seeds.urls),
        changes=[*kept, *options.setting("dedup", dedup)],
        has_data=as_json or out == "-",
    )
    if job.scraper.settings.mode == "distributed" and crew.workers is None and not resume:
        # Its workers are elsewhere; they are told how to join.
        report(ask(queue, lambda opened: fill_again(opened, job, seeds, rejects, run_id, invalid)), as_json)
        return
    summary = ask(
        queue,
        lambda opened: carry_out(opened, job, seeds, rejects, out, resume, run_id, as_json, invalid),
    )
    if as_json:
        put_json(
            summary.as_json()
            | ({"from_cache": summary.ending.tally.kept} if job.scraper.settings.cache else {})
        )
    else:
        say(closing_words(summary, out, job))
    raise typer.Exit(exit_code(summary))


async def carry_out(
    queue: "Queue",
    job: "Job",
    seeds: "Seeds",
    rejects: str | None,
    out: str | None,
    resume: str | None,
    run_id: str | None,
    as_json: bool,
    invalid: str = "skip",
) -> "Summary":
    """Do what `shoal run` was asked for, before the eyes of a person."""
    from shoal.cli.live import Show
    from shoal.cli.seeds import Refused
    from shoal.cli.stopping import obey_signals
    from shoal.fleet.again import pages_again
    from shoal.fleet.crew import Crew
    from shoal.fleet.launch import launch, lock_of, open_run
    from shoal.fleet.lifecycle import is_new, kept_if_accepted
    from shoal.fleet.outlet import Outlet

    wanted = run_id if resume is None or resume == NEWEST else resume
    known = await pages_again(queue, job.scraper, but=wanted)
    fresh = resume is None and await is_new(queue, wanted)
    async with AsyncExitStack() as stack:
        # Who is refused by the lock has made no run.
        lock = await stack.enter_async_context(lock_of(queue, job, wanted))
        run = await open_run(queue, job.scraper, run_id=wanted, resume=resume is not None)
        await stack.enter_async_context(kept_if_accepted(queue, run, is_new=fresh))
        await lock.name_run(run.id)
        outlet = Outlet(queue, run.id, out)
        show = stack.enter_context(Show(as_json=as_json, logs=job.logs))
        refused = stack.enter_context(Refused(rejects, invalid))
        crews: list[Crew] = []

        def begin(crew: Crew) -> None:
            crews.append(crew)
            obey_signals(crew, show.said)

        try:
            async with refused.feed(queue, job, seeds, run) as feed:
                summary = await launch(
                    queue,
                    job,
                    run,
                    show,
                    seeds=feed,
                    on_invalid=feed.invalid,
                    on_crew=begin,
                    outlet=outlet,
                    known=known,
                    lock=lock,
                )
        except asyncio.CancelledError:
            if not crews:
                # What has entered before is not entered again.
                show.said(f"Stopped while it was filled. Go on: the same command with --run {run.id}")
            raise
        return replace(summary, refused=refused.count)


def closing_words(summary: "Summary", out: str | None, job: "Job") -> str:
    """Return the last lines: what was done, and what to type next."""
    from shoal.export.address import shown_place
    from shoal.fleet.retyping import typed_on
    from shoal.scrape.gate import TOO_DEEP
    from shoal.worker.tally import listed

    snapshot, run_id = summary.snapshot, summary.run.id
    stats = snapshot.stats
    lines = [f"{_head(snapshot)}: {', '.join(_parts(summary))} in {duration(summary.seconds)}."]
    if snapshot.state == RunState.PARTIAL:
        reason = snapshot.run.reason.removesuffix(" reached")
        lines.append(f"Stopped at {reason} with {counted(stats.remaining, 'task')} left.")
    if summary.compared:
        found = ", ".join(f"{count:,} {name}" for name, count in summary.compared.as_json().items())
        lines.append(f"Compared with before: {found}.")
    lines += [f"Could not go on: {failure}" for failure in summary.ending.failures]
    tally = summary.ending.tally
    for words, counts in (("Failed tries", tally.errors), ("Put off at no cost", tally.put_off)):
        if counts:
            lines.append(f"{words}: {listed(counts)}.")
    lines += _links_not_followed(snapshot)
    if TOO_DEEP in snapshot.not_followed:
        deepest = job.scraper.settings.max_depth
        lines.append(
            f"Deeper:   --set max_depth={5 * deepest or 1}, now {deepest}; a chain of next links counts too"
        )
    if snapshot.state == RunState.PARTIAL:
        lines.append(f"More:     {go_on_command(job, run_id, max_pages=_more_pages(summary, job))}")
    elif stats.remaining and snapshot.state != RunState.CANCELLED:
        lines.append(f"Go on:    {go_on_command(job, run_id)}")
    if stats.dead:
        lines.append(f"Why:      {typed_on(job.queue_url, f'dead list {run_id}')}")
    if job.logs and not job.logs.is_stream:
        lines.append(f"Logs:     {job.logs.folder}")
    if out:
        lines.append(f"Results:  {shown_place(out)}")
    elif stats.items:
        results = typed_on(job.queue_url, f"export {run_id} --to {summary.run.scraper}.jsonl")
        lines.append(f"Results:  {results}")
    return "\n".join(lines)


def _head(snapshot: "Snapshot") -> str:
    if not snapshot.stats.remaining or snapshot.state == RunState.PARTIAL:
        return "Done"
    word = "Cancelled" if snapshot.state == RunState.CANCELLED else "Stopped"
    return f"{word} with {counted(snapshot.stats.remaining, 'task')} left"


def _parts(summary: "Summary") -> list[str]:
    stats, kept = summary.snapshot.stats, summary.ending.tally.kept
    parts = [counted(stats.completed, "page"), counted(stats.items, "item")]
    parts += [f"{kept:,} from the cache"] if kept else []
    parts += [f"{stats.rejected:,} rejected"] if stats.rejected else []
    parts += [counted(stats.dead, "dead letter")] if stats.dead else []
    parts += [f"{stats.expired:,} expired"] if stats.expired else []
    known = summary.enqueued.known
    parts += [f"{known:,} known from earlier runs"] if known else []
    parts += [f"{summary.refused:,} refused"] if summary.refused else []
    return parts


def _links_not_followed(snapshot: "Snapshot") -> list[str]:
    from shoal.worker.tally import listed

    if not snapshot.not_followed:
        return []
    counts = {reason: links.count for reason, links in snapshot.not_followed.items()}
    first = next(iter(snapshot.not_followed.values())).example
    example = f", for example {first}" if first else ""
    return [f"Links not followed: {listed(counts)}{example}."]


def _more_pages(summary: "Summary", job: "Job") -> int:
    stats = summary.snapshot.stats
    return stats.completed + stats.dead + (job.scraper.settings.max_pages or 0)


def exit_code(summary: "Summary") -> Exit:
    """Return what the shell is told."""
    if summary.ending.failed:
        return Exit.FAILED
    stats = summary.snapshot.stats
    if summary.refused and not stats.tasks:
        return Exit.USAGE
    if summary.snapshot.state == RunState.PARTIAL and not stats.dead:
        return Exit.LIMIT_REACHED
    return Exit.PARTIAL if stats.dead or stats.remaining else Exit.OK
