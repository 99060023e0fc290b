"""The roles of `shoal start`, before people's eyes."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from shoal.cli.asking import ask
from shoal.cli.console import counted, put_json, say
from shoal.cli.exits import Exit
from shoal.cli.job import read_job
from shoal.cli.live import LINE_EVERY, put_message, put_progress
from shoal.cli.look import line_of
from shoal.cli.run import closing_words, exit_code
from shoal.cli.seeds import Refused
from shoal.cli.stopping import obey_signals, on_signals
from shoal.core.errors import InvalidSetting
from shoal.core.model import Run
from shoal.fleet.cluster import PLACES, place_of
from shoal.fleet.crew import CrewEnding
from shoal.fleet.launch import Job, Summary
from shoal.fleet.lifecycle import not_left_empty
from shoal.fleet.named import seeds_of
from shoal.fleet.progress import Snapshot
from shoal.fleet.project import Entry, Project
from shoal.fleet.roles import Coordinator, Station, filling_lock, run_to_coordinate
from shoal.queue.contract import Queue


class Teller:
    """Tells a person what becomes of the runs: a line now and then."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._next_line = time.monotonic() + LINE_EVERY

    def joined(self, run: Run) -> None:
        """Say which run it is about."""
        if not self._as_json:
            say(f"Run {run.id} of {run.scraper}")

    def saw(self, snapshot: Snapshot) -> None:
        """Show how a run is, now and then."""
        if time.monotonic() < self._next_line:
            return
        self._next_line = time.monotonic() + LINE_EVERY
        if self._as_json:
            put_progress(snapshot)
        else:
            say(f"{snapshot.run.scraper}: {line_of(snapshot)}")

    def said(self, text: str) -> None:
        """Pass on what happened."""
        if self._as_json:
            put_message(text)
        else:
            say(text)


def job_of(entry: Entry, queue: str, **more: Any) -> Job:
    """Return the job of a scraper in a cluster, where many may work on a run unless it is in single mode."""
    urls = list(seeds_of(entry).urls)
    job = read_job(entry.name, queue=queue, urls=urls, joins=True, **more)
    # One machine may serve several scrapers at once, and each has its logs for itself.
    return replace(job, logs=job.logs and job.logs.within(entry.name))


def coordinate(
    project: Project,
    entries: Sequence[Entry],
    queue: str,
    run_ids: Sequence[str],
    more: dict[str, Any],
    as_json: bool,
) -> Exit:
    """Carry out a run of each scraper, and say how they went."""
    if run_ids and (len(run_ids) > 1 or len(entries) > 1):
        raise InvalidSetting("--run", "needs one scraper for one run; name it: shoal start NAME --run RUN …")
    _check_places(project, entries)
    run_id = run_ids[0] if run_ids else None
    jobs = [job_of(entry, queue, **more) for entry in entries]
    pairs = list(zip(entries, jobs, strict=True))
    ended = ask(queue, lambda opened: _coordinate(opened, project, pairs, run_id, as_json))
    if ended is None:
        say("Stopped waiting; workers go on with what is queued. Go on:  shoal start --role coordinator")
        return Exit.PARTIAL
    for summary, out, job in ended:
        put_json(summary.as_json()) if as_json else say(closing_words(summary, out, job))
    return max(_coordinators_code(summary) for summary, _, _ in ended)


def _coordinators_code(summary: Summary) -> Exit:
    """Return what a scheduler is told: that a run has used its budget of pages is what was planned."""
    code = exit_code(summary)
    return Exit.OK if code is Exit.LIMIT_REACHED else code


Ended = tuple[Summary, str | None, Job]


async def _coordinate(
    queue: Queue, project: Project, pairs: Sequence[tuple[Entry, Job]], run_id: str | None, as_json: bool
) -> list[Ended] | None:
    """Return how the runs ended, None if a signal came before."""
    teller = Teller(as_json=as_json)
    working = asyncio.gather(
        *(_carry_out(queue, project, entry, job, run_id, teller) for entry, job in pairs)
    )
    on_signals(lambda advice: working.cancel())
    with suppress(asyncio.CancelledError):
        return await working
    return None


async def _carry_out(
    queue: Queue, project: Project, entry: Entry, job: Job, run_id: str | None, teller: Teller
) -> Ended:
    plan, seeds = project.cluster, seeds_of(entry)
    async with AsyncExitStack() as stack:
        # Who is refused by the lock has made no run.
        lock = await stack.enter_async_context(filling_lock(queue, job.scraper.name, run_id))
        run = await run_to_coordinate(queue, job, run_id=run_id, resume=plan.coordinator.resume)
        is_empty = run_id is None and not (await queue.stats(run.id)).tasks
        await stack.enter_async_context(not_left_empty(queue, run, is_new=is_empty))
        await lock.name_run(run.id)
        out = _place(plan.storage.results, entry, run)
        coordinator = Coordinator(queue, job, run, teller, out, lock)
        refused = stack.enter_context(Refused(_place(plan.coordinator.rejects, entry, run)))
        async with refused.feed(queue, job, seeds, run) as feed:
            return await coordinator.carry_out(feed), out, job


def _place(pattern: str | None, entry: Entry, run: Run) -> str | None:
    if pattern is None:
        return None
    place = place_of(pattern, scraper=entry.name, run=run.id)
    if "://" not in place:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
    return place


def _check_places(project: Project, entries: Sequence[Entry]) -> None:
    """Refuse one file for several runs, which would write over each other."""
    file, plan = project.file and project.file.name, project.cluster
    places = {"storage.results": plan.storage.results, "coordinator.rejects": plan.coordinator.rejects}
    for key, pattern in places.items():
        if pattern and len(entries) > 1 and not any(f"{{{name}}}" in pattern for name in PLACES):
            reason = "is one file for several scrapers; put {scraper} or {run} into its name"
            raise InvalidSetting(f"{file}: {key}", reason)


def work(
    entries: Sequence[Entry], queue: str, run_ids: Sequence[str], more: dict[str, Any], as_json: bool
) -> Exit:
    """Serve runs until stopped, and say what was done."""
    jobs = [job_of(entry, queue, **more) for entry in entries]
    endings = ask(queue, lambda opened: _serve(opened, jobs, run_ids, as_json))
    put_endings(endings, is_json=as_json)
    return Exit.FAILED if any(ending.failed for ending in endings.values()) else Exit.OK


async def _serve(
    queue: Queue, jobs: Sequence[Job], run_ids: Sequence[str], as_json: bool
) -> dict[str, CrewEnding]:
    teller = Teller(as_json=as_json)
    station = Station(queue, jobs, teller, runs=run_ids, on_output=teller.said)
    obey_signals(station, teller.said)
    served = ", ".join(job.scraper.name for job in jobs)
    teller.said(f"Ready for runs of {served}; {counted(jobs[0].workers, 'worker')} for each.")
    return await station.serve()


def put_endings(endings: dict[str, CrewEnding], *, is_json: bool) -> None:
    """Say what was done here for each run."""
    for run_id, ending in endings.items():
        tally = ending.tally
        if is_json:
            put_json(
                {
                    "run_id": run_id,
                    "pages": tally.pages,
                    "items": tally.items,
                    "retried": tally.retried,
                    "buried": tally.buried,
                    "failures": ending.failures,
                }
            )
        else:
            say(f"Run {run_id}: {counted(tally.pages, 'page')} and {counted(tally.items, 'item')} here.")
