"""Every action that an operator can take; the API and the pages both call these."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Depends
from starlette.requests import Request

from shoal.core.errors import InvalidInput, InvalidSetting, InvalidUrl, UnknownScraper
from shoal.core.model import SEED_STEP, ZERO, DeadFilter, DeadLetter, EnqueueReport, Run, Task
from shoal.core.redact import bare_url
from shoal.core.urls import host_of
from shoal.core.values import hint
from shoal.fleet.build_job import check_served, job_of_run, project_job
from shoal.fleet.job import Job
from shoal.fleet.ondemand.dispatch import Scraped
from shoal.fleet.project.file import Project
from shoal.fleet.project.scrapers import load
from shoal.fleet.run import letters, lifecycle, retention
from shoal.fleet.run.enqueue import ends_as_nothing_new, fill, filled_row
from shoal.fleet.run.feed import InvalidSeeds
from shoal.fleet.run.letters import EditReport, LetterChange
from shoal.fleet.run.open_run import RunEnqueueReport, StartOptions, open_run
from shoal.fleet.run.retention import PurgeReport, RetentionRule
from shoal.fleet.run.settings import SettingRow, change_settings, list_settings
from shoal.fleet.schedule.plan import ScheduleRecord
from shoal.fleet.sources.declared import declared_seeds
from shoal.fleet.sources.names import read_sources
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.find import whole_ids
from shoal.fleet.status.quality import accept as accept_run
from shoal.queue.contract import Queue
from shoal.scrape.settings.scraper import SETTINGS
from shoal.web.audit import record_action
from shoal.web.auth import Principal, check_operator, principal_of
from shoal.web.context import WebContext, context_of
from shoal.web.requests import ScheduleBody, SeedsBody, StartRunBody, WorkersBody

Ids = Sequence[str] | None  # of dead letters; None means all

WEB_SETTINGS = tuple(name for name, declared in SETTINGS.items() if declared.web)


@dataclass(frozen=True, slots=True)
class OperatorActions:
    """What an operator can do; a 403 for a reader, and for anyone on a read-only server."""

    context: WebContext
    principal: Principal

    def __post_init__(self) -> None:
        check_operator(self.context, self.principal)

    @property
    def _queue(self) -> Queue:
        return self.context.app.queue

    async def record(self, action: str, target: str, **details: Any) -> None:
        """Add an entry to the audit log."""
        await record_action(self._queue, self.principal, action, target, **details)

    async def pause(self, run_id: str) -> Run:
        """Stop handing out tasks of a run until it is resumed. A finished run stays as it is."""
        return await self._change_state("pause", lambda one: lifecycle.pause(self._queue, one), run_id)

    async def resume(self, run_id: str) -> Run:
        """Resume a paused or partial run; raises RunConflict if it cannot go on."""
        return await self._change_state("resume", lambda one: lifecycle.resume(self._queue, one), run_id)

    async def cancel(self, run_id: str) -> Run:
        """Cancel a run permanently; nothing is deleted. A finished run stays as it is."""
        return await self._change_state("cancel", lambda one: lifecycle.cancel(self._queue, one), run_id)

    async def _change_state(self, name: str, verb: Callable[[str], Awaitable[Run]], run_id: str) -> Run:
        run = await verb(run_id)
        await self.record(name, run_id)
        return run

    async def accept(self, run_id: str, *, undo: bool = False) -> None:
        """Declare the items of a run right: later runs are compared with it; or take that back."""
        await accept_run(self._queue, await self._queue.run(run_id), undo=undo)
        await self.record("accept", run_id, **({"undo": True} if undo else {}))

    async def change_settings(self, run_id: str, settings: Mapping[str, Any]) -> list[SettingRow]:
        """Change settings of a run while it runs; return all of its settings."""
        check_settings(settings)
        await change_settings(self._queue, run_id, settings)
        await self.record("set", run_id, **settings)
        return await list_settings(self._queue, run_id)

    async def change_schedule(self, name: str, body: ScheduleBody) -> ScheduleRecord:
        """Change when a schedule runs, and with which arguments and settings."""
        given = body.change()
        check_settings(given.get("settings", {}))
        record = await self.context.app.schedules.change(name, given)
        shown = {key: value for key, value in given.items() if key != "args"}  # they may be secret
        await self.record("set schedule", name, **shown)
        return record

    async def steer_schedule(self, verb: Literal["pause", "resume", "run_now"], name: str) -> ScheduleRecord:
        """Pause or resume a schedule, or run it once now."""
        schedules = self.context.app.schedules
        steer = {"pause": schedules.pause, "resume": schedules.resume, "run_now": schedules.run_now}[verb]
        record = await steer(name)
        await self.record(f"{verb.replace('_', ' ')} schedule", name)
        return record

    async def purge(self, run_id: str) -> None:
        """Delete a run with all that it stores; raises RunConflict while workers run on it."""
        await retention.purge_run(self._queue, run_id)
        await self.record("purge", run_id)

    async def purge_old(self, rule: RetentionRule, *, dry_run: bool = False) -> PurgeReport:
        """Delete the runs that a rule selects; return them with their counts."""
        report = await retention.purge_old(self._queue, rule, dry_run=dry_run)
        if not dry_run:
            target = rule.scraper or "all scrapers"
            await self.record("purge old", target, runs=len(report.runs))
        return report

    async def replay(
        self, run_id: str, ids: Ids = None, *, where: DeadFilter = DeadFilter(), delay: timedelta = ZERO
    ) -> int:
        """Put dead letters back to pending, after a delay if one is given; return how many."""
        chosen = await self._whole(run_id, ids)
        count = await self._queue.replay(run_id, chosen, where=where, delay=delay)
        await self.record("replay", run_id, letters=count)
        return count

    async def drop(self, run_id: str, ids: Ids = None, *, where: DeadFilter = DeadFilter()) -> int:
        """Drop dead letters permanently; return how many."""
        count = await self._queue.drop(run_id, await self._whole(run_id, ids), where=where)
        await self.record("drop", run_id, letters=count)
        return count

    async def _whole(self, run_id: str, ids: Ids) -> Ids:
        return None if ids is None else await whole_ids(self._queue, run_id, ids)

    async def edit_letter(self, run_id: str, letter_id: str, change: LetterChange) -> DeadLetter:
        """Change one dead letter and return it; raises RunConflict if it has changed or is a duplicate."""
        await self._check_step(run_id, change)
        letter = await letters.edit_letter(self._queue, run_id, letter_id, change, by=self.principal.name)
        await self.record("edit", run_id, letters=1, **_hosts_of([change.url]))
        return letter

    async def edit_letters(
        self,
        run_id: str,
        change: LetterChange,
        ids: Ids = None,
        *,
        where: DeadFilter = DeadFilter(),
        dry_run: bool = False,
    ) -> EditReport:
        """Change dead letters; return the counts, and what was changed or refused."""
        await self._check_step(run_id, change)
        report = await letters.edit_letters(
            self._queue, run_id, change, ids=ids, where=where, by=self.principal.name, dry_run=dry_run
        )
        if not dry_run:
            new = change.url or (change.url_replace[1] if change.url_replace else None)
            await self.record("edit", run_id, letters=report.edited, **_hosts_of([new]))
        return report

    async def _check_step(self, run_id: str, change: LetterChange) -> None:
        app = self.context.app
        job_of = partial(job_of_run, app.project, app.queue_url)
        await letters.check_step(app.queue, await app.queue.run(run_id), change.step, job_of)

    async def pause_host(self, host: str, duration: timedelta) -> None:
        """Send a host no requests for a while, in any run; zero ends a pause."""
        await self._queue.pause_host(host, duration)
        await self.record("pause host", host, seconds=duration.total_seconds())

    async def slow_host(self, host: str, delay: timedelta) -> None:
        """Set the minimum gap between request starts on a host, in any run; zero removes it."""
        await self._queue.slow_host(host, delay)
        await self.record("slow host", host, seconds=delay.total_seconds())

    async def prepare(self, body: StartRunBody) -> tuple[Job, Seeds]:
        """Return what a start works on; raises InvalidInput for what cannot be started."""
        app = self.context.app
        check_settings(body.settings)
        check_workers(self.context, body.workers)
        job = await asyncio.to_thread(
            project_job, app.project, app.queue_url, body.scraper, body.settings, body.args
        )
        others = {"sitemap": body.sitemaps, "feed": body.feeds, "feed_hosts": body.feed_hosts}
        tasks = [task.task() for task in body.tasks]
        return job, read_sources(body.urls, tasks, others) or seeds_of_job(app.project, job)

    async def start(self, body: StartRunBody, *, needs_tasks: bool = False) -> dict[str, Any]:
        """Start a run of a project scraper, enqueue its tasks, and return what `shoal enqueue --json` prints.

        Without any source the run gets the seeds that the project or the scraper declares. An existing run id
        is continued: tasks that are already in the run are not added again. The workers start here; with
        them, or with `needs_tasks`, a new run that gets no task is deleted, and InvalidInput says why.
        """
        app, workers = self.context.app, body.workers
        job, seeds = await self.prepare(body)
        options = StartOptions(
            run_id=body.run_id,
            routes=app.project.routes,
            invalid=InvalidSeeds(body.invalid),
            adds=True,
            keeps_empty=True,
            creates_first=True,
        )
        async with open_run(app.queue, job, seeds, options) as opened:
            job, run = opened.job, opened.run
            report = await opened.enqueue()
            if opened.is_new and not report.added and (needs_tasks or (workers and not report.known)):
                known = f" {report.known:,} are known from earlier runs (dedup)." if report.known else ""
                raise InvalidInput(f"Nothing could be queued, so no run was started.{known}")
            if opened.is_new and await ends_as_nothing_new(app.queue, run, report):
                workers = 0
            if workers:
                async with app.local_workers.starting:
                    check_workers(self.context, workers)
                    await app.local_workers.start(run, job, workers)
        details: dict[str, Any] = _enqueue_counts(report) | ({"workers": workers} if workers else {})
        details |= _hosts_of([*body.urls, *(task.url for task in body.tasks)])
        details |= {"refused": _first_refusal(report)} if report.refused else {}
        await self.record("start", run.id, scraper=body.scraper, **details)
        return filled_row(job, run, report)

    async def start_workers(self, run_id: str, body: WorkersBody) -> int:
        """Start workers on this machine for a run of a project scraper; return how many it has here now."""
        limits = {"steps": body.steps, "partitions": body.partitions}
        async with self.context.app.local_workers.starting:
            check_workers(self.context, body.workers)
            await self.context.app.work(run_id, workers=body.workers, **limits)
        limited = {kind: names for kind, names in limits.items() if names}
        await self.record("start workers", run_id, workers=body.workers, **limited)
        return self.context.app.local_workers.count(run_id)

    async def stop_workers(self, run_id: str) -> int:
        """Let the workers that this server runs for a run finish their tasks and end; return how many."""
        stopped = self.context.app.local_workers.stop(run_id)
        await self.record("stop workers", run_id, workers=stopped)
        return stopped

    async def enqueue(self, run_id: str, body: SeedsBody) -> dict[str, Any]:
        """Add tasks to a run of a project scraper; return what `shoal enqueue --json` prints."""
        app = self.context.app
        run = await app.queue.run(run_id)
        job = await asyncio.to_thread(job_of_run, app.project, app.queue_url, run)
        seeds = read_sources(body.urls, [task.task() for task in body.tasks], {})
        report = await fill(app.queue, job, run, app.project.routes, seeds, on_invalid=body.invalid)
        hosts = _hosts_of([*body.urls, *(task.url for task in body.tasks)])
        await self.record("enqueue", run.id, **_enqueue_counts(report), **hosts)
        return filled_row(job, run, report)

    async def forget(self, scraper: str) -> int:
        """Forget what runs of a project scraper with `dedup` have queued; return how many tasks."""
        check_scraper(self.context, scraper)
        count = await self.context.app.forget(scraper)
        await self.record("forget", scraper, tasks=count)
        return count

    async def scrape(
        self,
        scraper: str,
        task: Task,
        *,
        timeout: timedelta,
        strategy: str = "least_loaded",
    ) -> Scraped:
        """Have an on-demand worker handle a task of a project scraper now."""
        check_scraper(self.context, scraper)
        if task.step != SEED_STEP:
            loaded = await asyncio.to_thread(load, self.context.app.project, scraper)
            check_served([task.step], loaded.scraper, option="step")
        scraped = await self.context.app.call(scraper, task, timeout=timeout, strategy=strategy)
        about = {"url": bare_url(task.url)} if task.url else {"step": task.step}
        await self.record("scrape", scraper, **about)
        return scraped


def operator_actions(request: Request) -> OperatorActions:
    """Return the actions of who sent a request; raises a 403 if they may not make changes."""
    return OperatorActions(context_of(request), principal_of(request))


Operator = Annotated[OperatorActions, Depends(operator_actions)]


def _enqueue_counts(report: EnqueueReport) -> dict[str, int]:
    return {"enqueued": report.added} | ({"known": report.known} if report.known else {})


MAX_SHOWN_HOSTS = 5


def _hosts_of(urls: Iterable[str | None]) -> dict[str, list[str]]:
    """Return the first hosts of these URLs, for the audit log: the scraper's secrets may go there."""
    hosts: dict[str, None] = {}
    for url in urls:
        with suppress(InvalidUrl):
            hosts[host_of(url or "")] = None
        if len(hosts) == MAX_SHOWN_HOSTS:
            break
    return {"hosts": list(hosts)} if hosts else {}


def _first_refusal(report: RunEnqueueReport) -> str:
    if not report.refused:
        return ""
    first = report.refused[0]
    return f"{first.where} {bare_url(first.text)}: {first.reason}"


def check_scraper(context: WebContext, scraper: str) -> None:
    """Raise UnknownScraper if the project has no scraper of this name."""
    known = context.app.project.scrapers
    if scraper not in known:
        raise UnknownScraper(scraper, list(known))


def check_workers(context: WebContext, workers: int) -> None:
    """Raise InvalidSetting if this server may not run that many workers more."""
    most, running = context.settings.max_workers, context.app.local_workers.count()
    if running + workers > most:
        raise InvalidSetting(
            "workers",
            f"must be at most {most - running}: this server runs {running} of at most {most} workers. "
            "Start others elsewhere with `shoal work`, or serve with a larger --max-workers",
        )


def seeds_of_job(project: Project, job: Job) -> Seeds:
    """Return the seeds that are declared for a job; raises InvalidInput if there are none."""
    seeds = declared_seeds(project, job)
    if not seeds:
        raise InvalidInput(
            f"Give URLs, a sitemap or a feed, or add seeds to {project.scrapers[job.name].where}: "
            f'[scrapers.{job.name}.seeds] and url = ["https://…"]'
        )
    return seeds


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise InvalidSetting for a setting that users of the server may not change."""
    for key in settings:
        if key not in WEB_SETTINGS:
            raise InvalidSetting(
                f"settings.{key}", f"cannot be set through the API or the pages. {hint(key, WEB_SETTINGS)}"
            )
