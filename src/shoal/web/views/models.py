"""The data of the live parts of pages, from one sample; used by pages and event streams alike."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from shoal.core.model import Counts, ReportedState, RunState, WorkerState
from shoal.fleet.command_hints import joined, queue_option
from shoal.fleet.partitions.membership import planned_mode
from shoal.fleet.quality.records import read_record
from shoal.fleet.run.lifecycle import used_page_limit
from shoal.fleet.status.at_work import state_of
from shoal.fleet.status.overview import Overview, errors_of, why_workers_wait, worker_row
from shoal.fleet.status.partitions import partitions as read_partitions
from shoal.fleet.status.progress import Snapshot, with_details
from shoal.fleet.status.quality import profile_report, trend_of
from shoal.web.context import WebContext
from shoal.web.sampler import DeadErrors, Sample
from shoal.web.views.paging import take
from shoal.worker.left_out import LOST
from shoal.worker.run_settings import read_note

MAX_ERRORS = 12
MAX_FIELDS = 60
MAX_HOSTS = 15
MAX_LIMITED_HOSTS = 15
MAX_PARTITIONS = 50
MAX_REASONS = 15  # why links were not followed
MAX_STEPS = 50
MAX_WORKERS = 50


def overview_data(sample: Sample) -> dict[str, Any]:
    """Return the data of the overview."""
    seen = sample.overview
    return {
        "totals": _totals(seen),
        "runs": seen.runs,
        "limited_hosts": [host for host in seen.hosts if host.delay or host.paused_for][:MAX_LIMITED_HOSTS],
        "errors": list(seen.errors.items())[:MAX_ERRORS],
    }


async def run_data(context: WebContext, sample: Sample, snapshot: Snapshot) -> dict[str, Any]:
    """Return the data of a run page, except its settings."""
    queue, run_id = context.app.queue, snapshot.run.id
    hosts = await take(queue.hosts(run_id), MAX_HOSTS + 1)
    # Of a run with tasks left the sample has them.
    details = snapshot if snapshot.stats.remaining else await with_details(queue, snapshot)
    dead = await context.dead_errors.read(run_id, snapshot.stats.dead)
    workers = await worker_data(context, sample, snapshot) | {"are_listed": True}
    has_partitions = len(snapshot.stats.partitions) > 1
    partitions = await read_partitions(queue, run_id) if has_partitions else []
    found = {
        "partitions": partitions[:MAX_PARTITIONS],
        "more_partitions": len(partitions[MAX_PARTITIONS:]),
        "hosts": hosts[:MAX_HOSTS],
        "more_hosts": len(hosts) > MAX_HOSTS,
        "not_followed": list(details.not_followed.items())[:MAX_REASONS],
        "missing": details.missing,
        "files": details.files,
        "hooks": details.hooks,
        "unserved": details.unserved,
        "lost": LOST if details.lost_counts else "",
    }
    return _run_data(sample, snapshot) | found | dead_data(dead) | workers


async def quality_data(context: WebContext, snapshot: Snapshot) -> dict[str, Any]:
    """Return the fields of a run that was judged, and the trend over the runs of its scraper."""
    record = await read_record(context.app.queue, snapshot.run) if snapshot.judged else None
    if record is None:
        return {"fields": [], "trend": []}
    trend, report = await trend_of(context.app.queue, snapshot.run.scraper), profile_report(record.profile)
    return {
        "fields": report.fields[:MAX_FIELDS],
        "more_fields": len(report.fields[MAX_FIELDS:]),
        "uncounted": report.notice,
        "trend": trend,
    }


async def trend_data(context: WebContext, scraper: str) -> dict[str, Any]:
    """Return the last runs of a scraper, the fields that they have, and which of them are still there."""
    trend = await trend_of(context.app.queue, scraper)
    fields = list(dict.fromkeys(name for row in reversed(trend) for name in row.filled))
    return {
        "trend": trend,
        "fields": fields[:MAX_FIELDS],
        "more_fields": len(fields[MAX_FIELDS:]),
        "known": {run.id for run in await context.app.queue.runs()},
    }


async def worker_data(context: WebContext, sample: Sample, snapshot: Snapshot) -> dict[str, Any]:
    """Return who works on a run, how many of them run here, and what starts more."""
    run, local = snapshot.run, context.app.local_workers
    name = context.scraper_rows.name_of(run.scraper)
    states = [state_of(worker) for worker in sample.overview.workers if worker.run_id == run.id]
    here = local.count(run.id)
    return {
        "are_listed": False,  # whether the page lists the workers too
        "working": max(states.count(WorkerState.RUNNING), here),
        "here": here,
        "is_stopping": local.is_stopping(run.id),
        "failure": context.redact(local.failure(run.id)),
        "is_starting": run.id in context.starts,
        "needs_workers": _needs_workers(snapshot),
        "can_work": name is not None and context.settings.max_workers > 0,
        "max_workers": max(context.settings.max_workers - local.count(), 0),
        "worker_command": await worker_command(context, snapshot),
    }


async def worker_command(
    context: WebContext, snapshot: Snapshot, *, steps: Sequence[str] = (), partitions: Sequence[str] = ()
) -> str:
    """Return the command that starts a worker on a run, on a machine that has the scraper and the secrets.

    A scraper that this project lacks is named as it was typed for the run. Empty if that is not known.
    """
    run = snapshot.run
    name = context.scraper_rows.name_of(run.scraper)
    name = name or (await read_note(context.app.queue, run.id)).settings.scraper
    if not name:
        return ""
    mode = await planned_mode(context.app.queue, run.id) or context.app.project.partition_mode
    named = partitions or filter(None, [mode])
    limits = {"--steps": ",".join(steps), "--partitions": ",".join(named)}
    words = ["shoal", "work", name, "--run", run.id]
    words += [word for option, value in limits.items() if value for word in (option, value)]
    return joined([*words, *queue_option(context.app.queue_url)])


def dead_data(dead: DeadErrors) -> dict[str, Any]:
    """Return the error classes of dead letters with their counts and the queries of their lists."""
    classes = [(name, count, urlencode({"error": name})) for name, count in dead.classes[:MAX_ERRORS]]
    return {"dead_classes": classes, "dead_cut": dead.is_cut}


def _needs_workers(snapshot: Snapshot) -> bool:
    return bool(snapshot.stats.remaining) and snapshot.run.state is not RunState.CANCELLED


def _run_data(sample: Sample, snapshot: Snapshot) -> dict[str, Any]:
    run_id = snapshot.run.id
    seen = [worker for worker in sample.overview.workers if worker.run_id == run_id]
    return {
        "snapshot": snapshot,
        "used_page_limit": used_page_limit(snapshot.run, snapshot.stats),
        "run_id": run_id,
        "steps": sorted(snapshot.stats.steps.items(), key=_step_order)[:MAX_STEPS],
        "workers": [worker_row(worker) for worker in seen[:MAX_WORKERS]],
        "with_run": False,
        "no_workers": "" if _needs_workers(snapshot) else "No workers on this run.",  # `who_works` says it
        "errors": list(errors_of(seen).items())[:MAX_ERRORS],
        "waits_for": why_workers_wait(seen) if snapshot.stats.remaining else "",
    }


def overview_title(seen: Overview) -> str:
    """Return the page title of the overview."""
    rate, left = sum(snapshot.rate for snapshot in seen.runs), seen.tasks.remaining
    if not seen.runs:
        return "No runs yet"
    if not left:
        return "All done"
    return f"{rate:,.1f} pages/s · {left:,} left"


def run_title(snapshot: Snapshot) -> str:
    """Return the page title of a run."""
    how = "" if snapshot.state is ReportedState.RUNNING else f" · {snapshot.state}"
    return f"{snapshot.stats.completed:,} of {snapshot.stats.tasks:,} · {snapshot.run.scraper}{how}"


def _totals(seen: Overview) -> dict[str, Any]:
    states = [state_of(worker) for worker in seen.workers]
    return {
        "rate": float(sum(snapshot.rate for snapshot in seen.runs)),
        "remaining": seen.tasks.remaining,
        "workers": states.count(WorkerState.RUNNING),
        "late": states.count(WorkerState.LATE) + states.count(WorkerState.FROZEN),
        "errors": sum(seen.errors.values()),
        "store": seen.store,
    }


def _step_order(step: tuple[str, Counts]) -> tuple[int, str]:
    # The store does not know the order of steps; listing steps have fewer tasks than the steps they feed.
    return step[1].tasks, step[0]
