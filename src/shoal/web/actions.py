"""Every action a user can take; the API and the pages both call these."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from shoal.core.errors import InvalidSetting, UnknownScraper
from shoal.core.model import DeadFilter, EnqueueReport, Run, Task
from shoal.core.redact import bare_url
from shoal.core.values import hint
from shoal.fleet.jobs import job_of_run, project_job
from shoal.fleet.ondemand.dispatch import Scraped
from shoal.fleet.run import change, lifecycle
from shoal.fleet.run.change import SettingRow
from shoal.fleet.run.enqueue import InvalidPolicy, fill, filled_row
from shoal.fleet.run.settings import open_job
from shoal.fleet.sources.names import read_sources
from shoal.web.audit import record_action
from shoal.web.auth.credentials import Principal, check_operator
from shoal.web.context import WebContext

Ids = Sequence[str] | None  # of dead letters; None means all

# None of these names a file, a program, an environment variable or a secret, or allows a private network.
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
    "skip",
    "max_depth",
    "max_pages",
    "max_per_pattern",
    "statuses",
    "fetch",
    "delivery",
    "pause",
    "max_body",
)


async def pause(context: WebContext, principal: Principal, run_id: str) -> Run:
    """Stop handing out tasks of a run until it is resumed."""
    return await _change_state(context, principal, "pause", context.app.queue.pause, run_id)


async def resume(context: WebContext, principal: Principal, run_id: str) -> Run:
    """Resume a paused or partial run; raises RunConflict if it was cancelled."""
    return await _change_state(context, principal, "resume", context.app.queue.resume, run_id)


async def cancel(context: WebContext, principal: Principal, run_id: str) -> Run:
    """Cancel a run permanently; nothing is deleted. A finished run stays as it is."""
    return await _change_state(
        context, principal, "cancel", lambda one: lifecycle.cancel(context.app.queue, one), run_id
    )


async def _change_state(
    context: WebContext, principal: Principal, name: str, verb: Callable[[str], Awaitable[Run]], run_id: str
) -> Run:
    check_operator(context, principal)
    run = await verb(run_id)
    await record_action(context.app.queue, principal, name, run_id)
    return run


async def change_settings(
    context: WebContext, principal: Principal, run_id: str, settings: Mapping[str, Any]
) -> list[SettingRow]:
    """Change settings of a run while it runs; return all of its settings."""
    check_operator(context, principal)
    _check_settings(settings)
    queue = context.app.queue
    await change.change_settings(queue, run_id, settings)
    await record_action(queue, principal, "set", run_id, **settings)
    return await change.list_settings(queue, run_id)


async def purge(context: WebContext, principal: Principal, run_id: str) -> None:
    """Delete a run with all its tasks, items and dead letters."""
    check_operator(context, principal)
    await lifecycle.purge(context.app.queue, run_id)
    await record_action(context.app.queue, principal, "purge", run_id)


async def replay(
    context: WebContext,
    principal: Principal,
    run_id: str,
    ids: Ids = None,
    *,
    where: DeadFilter = DeadFilter(),
) -> int:
    """Put dead letters back to pending; return how many."""
    return await _change_letters(context, principal, "replay", context.app.queue.replay, run_id, ids, where)


async def drop(
    context: WebContext,
    principal: Principal,
    run_id: str,
    ids: Ids = None,
    *,
    where: DeadFilter = DeadFilter(),
) -> int:
    """Drop dead letters permanently; return how many."""
    return await _change_letters(context, principal, "drop", context.app.queue.drop, run_id, ids, where)


class _DeadLetterAction(Protocol):
    def __call__(self, run_id: str, ids: Ids, *, where: DeadFilter) -> Awaitable[int]: ...


async def _change_letters(
    context: WebContext,
    principal: Principal,
    name: str,
    verb: _DeadLetterAction,
    run_id: str,
    ids: Ids,
    where: DeadFilter,
) -> int:
    check_operator(context, principal)
    count = await verb(run_id, ids, where=where)
    await record_action(context.app.queue, principal, name, run_id, letters=count)
    return count


async def pause_host(context: WebContext, principal: Principal, host: str, duration: timedelta) -> None:
    """Send a host no requests for a while, in any run; zero ends a pause."""
    check_operator(context, principal)
    await context.app.queue.pause_host(host, duration)
    await record_action(context.app.queue, principal, "pause host", host, seconds=duration.total_seconds())


async def slow_host(context: WebContext, principal: Principal, host: str, delay: timedelta) -> None:
    """Set the minimum gap between request starts on a host, in any run; zero removes it."""
    check_operator(context, principal)
    await context.app.queue.slow_host(host, delay)
    await record_action(context.app.queue, principal, "slow host", host, seconds=delay.total_seconds())


async def start(
    context: WebContext,
    principal: Principal,
    scraper: str,
    *,
    urls: Sequence[str] = (),
    tasks: Sequence[Task] = (),
    settings: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    invalid: InvalidPolicy = "skip",
) -> dict[str, Any]:
    """Start a run of a project scraper, enqueue its tasks, and return what `shoal enqueue --json` prints.

    An existing run id is continued: tasks that are already in the run are not added again.
    """
    check_operator(context, principal)
    _check_settings(settings or {})
    app = context.app
    job = await asyncio.to_thread(project_job, app.project, app.queue_url, scraper, settings)
    opened = await open_job(app.queue, job, run_id=run_id)
    job, run = opened.job, opened.run
    seeds = read_sources(urls, tasks, {})
    report = await fill(app.queue, job, run, app.project.routes, seeds, on_invalid=invalid)
    await record_action(app.queue, principal, "start", run.id, scraper=scraper, **_enqueue_counts(report))
    return filled_row(job, run, report)


async def enqueue(
    context: WebContext,
    principal: Principal,
    run_id: str,
    *,
    urls: Sequence[str] = (),
    tasks: Sequence[Task] = (),
    invalid: InvalidPolicy = "skip",
) -> dict[str, Any]:
    """Add tasks to a run of a project scraper; return what `shoal enqueue --json` prints."""
    check_operator(context, principal)
    app = context.app
    run = await app.queue.run(run_id)
    job = await asyncio.to_thread(job_of_run, app.project, app.queue_url, run)
    seeds = read_sources(urls, tasks, {})
    report = await fill(app.queue, job, run, app.project.routes, seeds, on_invalid=invalid)
    await record_action(app.queue, principal, "enqueue", run.id, **_enqueue_counts(report))
    return filled_row(job, run, report)


async def forget(context: WebContext, principal: Principal, scraper: str) -> int:
    """Forget what runs of a project scraper with `dedup` have queued; return how many tasks."""
    check_operator(context, principal)
    project = context.app.project
    if scraper not in project.scrapers:
        raise UnknownScraper(scraper, list(project.scrapers))
    count = await context.app.forget(scraper)
    await record_action(context.app.queue, principal, "forget", scraper, tasks=count)
    return count


async def scrape(
    context: WebContext, principal: Principal, scraper: str, task: Task, *, timeout: timedelta
) -> Scraped:
    """Have an on-demand worker handle a task of a project scraper now."""
    check_operator(context, principal)
    project = context.app.project
    if scraper not in project.scrapers:
        raise UnknownScraper(scraper, list(project.scrapers))
    scraped = await context.app.call(scraper, task, timeout=timeout)
    about = {"url": bare_url(task.url)} if task.url else {"step": task.step}
    await record_action(context.app.queue, principal, "scrape", scraper, **about)
    return scraped


def _enqueue_counts(report: EnqueueReport) -> dict[str, int]:
    return {"enqueued": report.added} | ({"known": report.known} if report.known else {})


def _check_settings(settings: Mapping[str, Any]) -> None:
    for key in settings:
        if key not in SETTINGS:
            raise InvalidSetting(f"settings.{key}", f"cannot be set through the API. {hint(key, SETTINGS)}")
