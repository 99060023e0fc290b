"""Preview of a launch: what each worker serves, its tasks and the estimated time."""

from collections.abc import Mapping
from datetime import timedelta
from math import inf
from typing import Any

import msgspec

from shoal.core.model import ZERO, Counts, Run, Stats
from shoal.core.values import counted
from shoal.fleet.job import Job
from shoal.fleet.partitions.plan import assign
from shoal.fleet.scale.decide import RunLoad, load_of, mean, pace_of
from shoal.queue.contract import Queue

EVERYTHING = "all"
Pause = tuple[timedelta, timedelta]


class PreviewRow(msgspec.Struct, frozen=True, kw_only=True):
    """The share of one worker."""

    worker: int
    serves: str
    pending: int
    eta: timedelta | None  # from the rate limits of the hosts and `pause`; None without a limit

    def as_json(self) -> dict[str, Any]:
        """Return the row under the field names of every report."""
        return {
            "worker": self.worker,
            "serves": self.serves,
            "pending": self.pending,
            "eta_seconds": round(self.eta.total_seconds()) if self.eta is not None else None,
        }


class LaunchPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The shares of all workers before they start."""

    run: Run
    load: RunLoad
    parts: tuple[PreviewRow, ...]

    @property
    def warning(self) -> str | None:
        """A warning if there are more workers than the hosts can keep busy."""
        most, count = self.load.most_useful, len(self.parts)
        if most is None or not most or count <= most:
            return None
        hosts = counted(self.load.hosts, "host")
        rate = "" if self.load.rate == inf else f" at {self.load.rate:,.3g} requests/s"
        return f"{hosts}{rate} can't keep {count} workers busy; --workers {most} is just as fast"


async def preview_launch(queue: Queue, job: Job, run: Run) -> LaunchPreview:
    """Return the share of each worker of the job in a run that has its tasks."""
    pause = job.scraper.settings.pause
    load = await load_of(queue, run, pace=pace_of(pause))
    shares = _shares(job, await queue.stats(run.id))
    parts = (
        PreviewRow(worker=number, serves=serves, pending=pending, eta=_eta(load, pending, len(shares), pause))
        for number, (serves, pending) in enumerate(shares, 1)
    )
    return LaunchPreview(run=run, load=load, parts=tuple(parts))


def _eta(load: RunLoad, pending: int, workers: int, pause: Pause | None) -> timedelta | None:
    """Return the time for a share if the hosts' rate is shared evenly; the longest queue ends last.

    A worker that pauses between tasks has one at a time, whatever its hosts allow.
    """
    paused = mean(pause) * pending if pause else None
    if load.rate == inf or not load.rate:
        return paused
    return max(timedelta(seconds=pending * workers / load.rate), load.slowest, paused or ZERO)


def _shares(job: Job, stats: Stats) -> list[tuple[str, int]]:
    sharing = job.sharing
    if sharing:
        return _plan_shares(job.workers, stats.partitions, sharing.homes)
    chosen = stats.partitions if job.partitions is None else _only(stats.partitions, job.partitions)
    whole = sum(_waiting(counts) for counts in chosen.values())
    if job.steps is not None:
        whole = min(whole, sum(_waiting(counts) for counts in _only(stats.steps, job.steps).values()))
    serves = ", ".join([*(job.partitions or []), *(job.steps or [])]) or EVERYTHING
    each, more = divmod(whole, job.workers)
    return [(serves, each + (number < more)) for number in range(job.workers)]


def _plan_shares(
    workers: int, partitions: Mapping[str, Counts], homes: Mapping[str, int]
) -> list[tuple[str, int]]:
    """Return the partitions and tasks of each worker, by the plan that the workers will compute."""
    numbers = [str(number) for number in range(1, workers + 1)]
    weights = {name: _waiting(counts) for name, counts in partitions.items()}
    fixed = {name: str(number) for name, number in homes.items() if name in weights and number <= workers}
    plan = assign(weights, numbers, {}, fixed)
    found = {number: sorted(name for name, owner in plan.items() if owner == number) for number in numbers}
    return [(", ".join(names) or "waits", sum(weights[name] for name in names)) for names in found.values()]


def _only(counts: Mapping[str, Counts], names: list[str]) -> dict[str, Counts]:
    return {name: counts[name] for name in names if name in counts}


def _waiting(counts: Counts) -> int:
    return counts.pending + counts.delayed
