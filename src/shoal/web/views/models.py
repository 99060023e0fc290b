"""The data of the live parts of pages, from one sample; used by pages and event streams alike."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from shoal.core.model import Counts, HostStatus, ReportedState, RunState, WorkerState
from shoal.fleet.command_hints import joined, queue_option
from shoal.fleet.status.overview import Overview, errors_of, worker_row
from shoal.fleet.status.progress import Snapshot
from shoal.fleet.status.stale import state_of
from shoal.web.context import WebContext
from shoal.web.sampler import DeadErrors, Sample, Sampler
from shoal.worker.run_settings import options_for, read_note

RECENT = timedelta(minutes=5)
MAX_ERRORS = 12
MAX_LIMITED_HOSTS = 15
MAX_PARTITIONS = 50
MAX_STEPS = 50
MAX_WORKERS = 50


def overview_data(sampler: Sampler, sample: Sample) -> dict[str, Any]:
    """Return the data of the overview."""
    seen = sample.overview
    return {
        "totals": _totals(seen, sampler.new_errors(RECENT)),
        "runs": seen.runs,
        "limited_hosts": [host for host in seen.hosts if _is_limited(host)][:MAX_LIMITED_HOSTS],
        "errors": list(seen.errors.items())[:MAX_ERRORS],
    }


async def run_data(context: WebContext, sample: Sample, snapshot: Snapshot) -> dict[str, Any]:
    """Return the data of a run page, except its hosts."""
    dead = await context.dead_errors.read(snapshot.run.id, snapshot.stats.dead)
    workers = await worker_data(context, sample, snapshot) | {"are_listed": True}
    return _run_data(sample, snapshot) | dead_data(dead) | workers


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
        "needs_workers": bool(snapshot.stats.remaining) and run.state is not RunState.CANCELLED,
        "can_work": name is not None and context.settings.max_workers > 0,
        "max_workers": max(context.settings.max_workers - local.count(), 0),
        "worker_command": await worker_command(context, snapshot),
    }


async def worker_command(context: WebContext, snapshot: Snapshot) -> str:
    """Return the command that starts a worker on a run, on a machine that has the scraper and the secrets.

    A scraper that this project lacks is named as it was typed for the run. Empty if that is not known.
    """
    run = snapshot.run
    name = context.scraper_rows.name_of(run.scraper)
    name = name or (await read_note(context.app.queue, run.id)).settings.scraper
    if not name:
        return ""
    words = ["shoal", "work", name, "--run", run.id, *options_for(snapshot.private)]
    return joined([*words, *queue_option(context.app.queue_url)])


def dead_data(dead: DeadErrors) -> dict[str, Any]:
    """Return the error classes of dead letters with their counts and the queries of their lists."""
    classes = [(name, count, urlencode({"error": name})) for name, count in dead.classes[:MAX_ERRORS]]
    return {"dead_classes": classes, "dead_cut": dead.is_cut}


def _run_data(sample: Sample, snapshot: Snapshot) -> dict[str, Any]:
    run_id = snapshot.run.id
    partitions = sorted(snapshot.stats.partitions.items())
    seen = [worker for worker in sample.overview.workers if worker.run_id == run_id]
    return {
        "snapshot": snapshot,
        "run_id": run_id,
        "steps": sorted(snapshot.stats.steps.items(), key=_step_order)[:MAX_STEPS],
        "partitions": partitions[:MAX_PARTITIONS],
        "more_partitions": len(partitions[MAX_PARTITIONS:]),
        "workers": [worker_row(worker) for worker in seen[:MAX_WORKERS]],
        "with_run": False,
        # With tasks left, `who_works` says it.
        "no_workers": "" if snapshot.stats.remaining else "No workers on this run.",
        "errors": list(errors_of(seen).items())[:MAX_ERRORS],
    }


def overview_title(seen: Overview) -> str:
    """Return the page title of the overview."""
    rate, left = (
        sum(snapshot.rate for snapshot in seen.runs),
        sum(snapshot.stats.remaining for snapshot in seen.runs),
    )
    if not seen.runs:
        return "No runs yet"
    if not left:
        return "All done"
    return f"{rate:,.1f} pages/s · {left:,} left"


def run_title(snapshot: Snapshot) -> str:
    """Return the page title of a run."""
    how = "" if snapshot.state is ReportedState.RUNNING else f" · {snapshot.state}"
    return f"{snapshot.stats.completed:,} of {snapshot.stats.tasks:,} · {snapshot.run.scraper}{how}"


def _totals(seen: Overview, errors: int) -> dict[str, Any]:
    states = [state_of(worker) for worker in seen.workers]
    return {
        "rate": float(sum(snapshot.rate for snapshot in seen.runs)),
        "remaining": sum(snapshot.stats.remaining for snapshot in seen.runs),
        "workers": states.count(WorkerState.RUNNING),
        "late": states.count(WorkerState.LATE) + states.count(WorkerState.FROZEN),
        "errors": errors,
        "store": seen.store,
    }


def _is_limited(host: HostStatus) -> bool:
    return bool(host.delay or host.paused_for)


def _step_order(step: tuple[str, Counts]) -> tuple[int, str]:
    # The store does not know the order of steps; listing steps have fewer tasks than the steps they feed.
    return step[1].tasks, step[0]
