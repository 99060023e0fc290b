"""Everything that a guest may do, once: the API and the pages both call these."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from shoal.core.errors import InvalidSetting, UnknownScraper
from shoal.core.model import DeadFilter, EnqueueReport, Run, Task
from shoal.core.redact import bare_url
from shoal.core.values import hint
from shoal.fleet import lifecycle
from shoal.fleet.dispatch import Scraped
from shoal.fleet.filling import InvalidPolicy, fill, filled_row
from shoal.fleet.jobs import job_of_run, project_job
from shoal.fleet.launch import open_run
from shoal.fleet.named import read_sources
from shoal.web.actions import note
from shoal.web.guard import Guest, check_operator
from shoal.web.site import Site

Ids = Sequence[str] | None  # of dead letters; None is all of them

# None of them names a file, a program, a variable or a secret, nor opens the way to a private network.
SETTINGS = (
    "rate",
    "delay",
    "per_host",
    "retries",
    "retry",
    "timeout",
    "lease",
    "ttl",
    "dedup",
    "robots",
    "scope",
    "max_depth",
    "max_pages",
    "max_per_pattern",
    "fetch",
    "delivery",
    "pause",
    "max_body",
)


async def pause(site: Site, guest: Guest, run_id: str) -> Run:
    """Hand out no task of a run until it is resumed."""
    return await _steer(site, guest, "pause", site.app.queue.pause, run_id)


async def resume(site: Site, guest: Guest, run_id: str) -> Run:
    """Let a paused or partial run go on; raises RunConflict when it was cancelled."""
    return await _steer(site, guest, "resume", site.app.queue.resume, run_id)


async def cancel(site: Site, guest: Guest, run_id: str) -> Run:
    """End a run for good; nothing is deleted. One that has finished stays as it is."""
    return await _steer(site, guest, "cancel", lambda one: lifecycle.cancel(site.app.queue, one), run_id)


async def _steer(
    site: Site, guest: Guest, name: str, verb: Callable[[str], Awaitable[Run]], run_id: str
) -> Run:
    check_operator(site, guest)
    run = await verb(run_id)
    await note(site.app.queue, guest, name, run_id)
    return run


async def purge(site: Site, guest: Guest, run_id: str) -> None:
    """Delete a run with all its tasks, items and dead letters."""
    check_operator(site, guest)
    await lifecycle.purge(site.app.queue, run_id)
    await note(site.app.queue, guest, "purge", run_id)


async def replay(
    site: Site, guest: Guest, run_id: str, ids: Ids = None, *, where: DeadFilter = DeadFilter()
) -> int:
    """Put dead letters back to pending, and return how many."""
    return await _treat(site, guest, "replay", site.app.queue.replay, run_id, ids, where)


async def drop(
    site: Site, guest: Guest, run_id: str, ids: Ids = None, *, where: DeadFilter = DeadFilter()
) -> int:
    """Give dead letters up for good, and return how many."""
    return await _treat(site, guest, "drop", site.app.queue.drop, run_id, ids, where)


class _Treatment(Protocol):
    def __call__(self, run_id: str, ids: Ids, *, where: DeadFilter) -> Awaitable[int]: ...


async def _treat(
    site: Site, guest: Guest, name: str, verb: _Treatment, run_id: str, ids: Ids, where: DeadFilter
) -> int:
    check_operator(site, guest)
    count = await verb(run_id, ids, where=where)
    await note(site.app.queue, guest, name, run_id, letters=count)
    return count


async def pause_host(site: Site, guest: Guest, host: str, duration: timedelta) -> None:
    """Ask a host nothing for a while, in any run; zero ends a pause."""
    check_operator(site, guest)
    await site.app.queue.pause_host(host, duration)
    await note(site.app.queue, guest, "pause host", host, seconds=duration.total_seconds())


async def slow_host(site: Site, guest: Guest, host: str, delay: timedelta) -> None:
    """Keep at least this gap between two starts on a host, in any run; zero lifts it."""
    check_operator(site, guest)
    await site.app.queue.slow_host(host, delay)
    await note(site.app.queue, guest, "slow host", host, seconds=delay.total_seconds())


async def start(
    site: Site,
    guest: Guest,
    scraper: str,
    *,
    urls: Sequence[str] = (),
    tasks: Sequence[Task] = (),
    settings: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    invalid: InvalidPolicy = "skip",
) -> dict[str, Any]:
    """Make a run of a scraper of the project, fill it, and return what `shoal enqueue --json` has.

    A run id that exists is gone on with: what has entered before is not entered again.
    """
    check_operator(site, guest)
    _check_settings(settings or {})
    app = site.app
    job = await asyncio.to_thread(project_job, app.project, app.queue_url, scraper, settings)
    run = await open_run(app.queue, job.scraper, run_id=run_id)
    seeds = read_sources(urls, tasks, {})
    report = await fill(app.queue, job, run, app.project.routes, seeds, on_invalid=invalid)
    await note(app.queue, guest, "start", run.id, scraper=scraper, **_entered(report))
    return filled_row(job, run, report)


async def enqueue(
    site: Site,
    guest: Guest,
    run_id: str,
    *,
    urls: Sequence[str] = (),
    tasks: Sequence[Task] = (),
    invalid: InvalidPolicy = "skip",
) -> dict[str, Any]:
    """Add to a run of a scraper of the project, and return what `shoal enqueue --json` has."""
    check_operator(site, guest)
    app = site.app
    run = await app.queue.run(run_id)
    job = await asyncio.to_thread(job_of_run, app.project, app.queue_url, run)
    seeds = read_sources(urls, tasks, {})
    report = await fill(app.queue, job, run, app.project.routes, seeds, on_invalid=invalid)
    await note(app.queue, guest, "enqueue", run.id, **_entered(report))
    return filled_row(job, run, report)


async def forget(site: Site, guest: Guest, scraper: str) -> int:
    """Forget what runs of a scraper of the project with `dedup` have queued, and return how many tasks."""
    check_operator(site, guest)
    project = site.app.project
    if scraper not in project.scrapers:
        raise UnknownScraper(scraper, list(project.scrapers))
    count = await site.app.forget(scraper)
    await note(site.app.queue, guest, "forget", scraper, tasks=count)
    return count


async def scrape(site: Site, guest: Guest, scraper: str, task: Task, *, timeout: timedelta) -> Scraped:
    """Have a worker that listens handle a task now, for a scraper of the project."""
    check_operator(site, guest)
    project = site.app.project
    if scraper not in project.scrapers:
        raise UnknownScraper(scraper, list(project.scrapers))
    scraped = await site.app.call(scraper, task, timeout=timeout)
    about = {"url": bare_url(task.url)} if task.url else {"step": task.step}
    await note(site.app.queue, guest, "scrape", scraper, **about)
    return scraped


def _entered(report: EnqueueReport) -> dict[str, int]:
    return {"enqueued": report.added} | ({"known": report.known} if report.known else {})


def _check_settings(settings: Mapping[str, Any]) -> None:
    for key in settings:
        if key not in SETTINGS:
            raise InvalidSetting(f"settings.{key}", f"cannot be given here. {hint(key, SETTINGS)}")
