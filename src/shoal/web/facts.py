"""What the live parts of pages show, from one sample: the same for a page and for those who watch it."""

from datetime import timedelta
from typing import Any

from shoal.core.model import Counts, HostStatus
from shoal.fleet.overview import Overview, worker_row
from shoal.fleet.progress import Snapshot
from shoal.fleet.staleness import LATE, state_of
from shoal.web.sampler import Sample, Sampler, errors_of_run
from shoal.worker.keeper import FROZEN, RUNNING

LATELY = timedelta(minutes=5)
MOST_ERRORS = 12
MOST_TREATED = 15
MOST_PARTITIONS = 50
MOST_STEPS = 50
MOST_WORKERS = 50


def overview_facts(sampler: Sampler, sample: Sample) -> dict[str, Any]:
    """Return what the overview shows."""
    seen = sample.overview
    return {
        "totals": _totals(seen, sampler.new_errors(LATELY)),
        "runs": seen.runs,
        "treated": [host for host in seen.hosts if _is_treated(host)][:MOST_TREATED],
        "errors": list(seen.errors.items())[:MOST_ERRORS],
    }


def run_facts(sample: Sample, one: Snapshot) -> dict[str, Any]:
    """Return what the page of a run shows, but for its hosts."""
    run_id = one.run.id
    partitions = sorted(one.stats.partitions.items())
    workers = [worker_row(worker) for worker in sample.overview.workers if worker.run_id == run_id]
    return {
        "one": one,
        "run_id": run_id,
        "steps": sorted(one.stats.steps.items(), key=_step_order)[:MOST_STEPS],
        "partitions": partitions[:MOST_PARTITIONS],
        "more_partitions": len(partitions[MOST_PARTITIONS:]),
        "workers": workers[:MOST_WORKERS],
        "with_run": False,
        "no_workers": "No worker is on it now.",
        "errors": list(errors_of_run(sample.overview, run_id).items())[:MOST_ERRORS],
    }


def overview_title(seen: Overview) -> str:
    """Say in a few words what is going on."""
    rate, left = sum(one.rate for one in seen.runs), sum(one.stats.remaining for one in seen.runs)
    if not seen.runs:
        return "No runs yet"
    if not left:
        return "Nothing left to do"
    return f"{rate:,.1f} pages/s · {left:,} left"


def run_title(one: Snapshot) -> str:
    """Say in a few words how a run is."""
    how = "" if one.state == "running" else f" · {one.state}"
    return f"{one.stats.completed:,} of {one.stats.tasks:,} · {one.run.scraper}{how}"


def _totals(seen: Overview, errors: int) -> dict[str, Any]:
    states = [state_of(worker) for worker in seen.workers]
    return {
        "rate": float(sum(one.rate for one in seen.runs)),
        "remaining": sum(one.stats.remaining for one in seen.runs),
        "workers": states.count(RUNNING),
        "late": states.count(LATE) + states.count(FROZEN),
        "errors": errors,
    }


def _is_treated(host: HostStatus) -> bool:
    return bool(host.delay or host.paused_for)


def _step_order(step: tuple[str, Counts]) -> tuple[int, str]:
    # The store does not know in which order steps follow each other; lists have fewer pages than they list.
    return step[1].tasks, step[0]
