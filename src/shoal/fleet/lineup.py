"""What a fleet is about to do: which worker has what, how much that is, and how long it may take."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Any

from shoal.core.model import ZERO, Counts, Run, Stats
from shoal.fleet.forecast import Load, load_of, mean, pace_of
from shoal.fleet.launch import Job
from shoal.fleet.plan import assigned
from shoal.queue.contract import Queue

EVERYTHING = "all"
Pause = tuple[timedelta, timedelta]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one worker is to do."""

    worker: int
    serves: str
    pending: int
    eta: timedelta | None  # by what the hosts and `pause` allow; None where nothing sets a limit

    def as_json(self) -> dict[str, Any]:
        """Return the part under the names that every report uses."""
        return {
            "worker": self.worker,
            "serves": self.serves,
            "pending": self.pending,
            "eta_seconds": round(self.eta.total_seconds()) if self.eta is not None else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineup:
    """The workers of a fleet before they start."""

    run: Run
    load: Load
    parts: tuple[Part, ...]

    @property
    def warning(self) -> str | None:
        """What a person should know before so many workers are started."""
        most, count = self.load.most_useful, len(self.parts)
        if most is None or not most or count <= most:
            return None
        hosts = "1 host" if self.load.hosts == 1 else f"{self.load.hosts:,} hosts"
        return (
            f"{count} workers on {hosts} that may be asked {self.load.rate:,.3g} times a second are waste: "
            f"--workers {most} does as much"
        )


async def line_up(queue: Queue, job: Job, run: Run) -> Lineup:
    """Look at a run that has been filled, and say what each worker of the job will have of it."""
    pause = job.scraper.settings.pause
    load = await load_of(queue, run, pace=pace_of(pause))
    shares = _shares(job, await queue.stats(run.id))
    parts = (
        Part(worker=number, serves=serves, pending=pending, eta=_eta(load, pending, len(shares), pause))
        for number, (serves, pending) in enumerate(shares, 1)
    )
    return Lineup(run=run, load=load, parts=tuple(parts))


def _eta(load: Load, pending: int, workers: int, pause: Pause | None) -> timedelta | None:
    """Return how long a share takes when the hosts' rate is shared evenly; the longest queue ends last.

    A worker that pauses between two tasks has one at a time, however much its hosts allow.
    """
    paused = mean(pause) * pending if pause else None
    if load.rate == inf or not load.rate:
        return paused
    return max(timedelta(seconds=pending * workers / load.rate), load.slowest, paused or ZERO)


def _shares(job: Job, stats: Stats) -> list[tuple[str, int]]:
    sharing = job.sharing
    if sharing:
        return _planned(job.workers, stats.partitions, sharing.homes)
    chosen = stats.partitions if job.partitions is None else _only(stats.partitions, job.partitions)
    whole = sum(_waiting(counts) for counts in chosen.values())
    if job.steps is not None:
        whole = min(whole, sum(_waiting(counts) for counts in _only(stats.steps, job.steps).values()))
    serves = ", ".join([*(job.partitions or []), *(job.steps or [])]) or EVERYTHING
    each, more = divmod(whole, job.workers)
    return [(serves, each + (number < more)) for number in range(job.workers)]


def _planned(
    workers: int, partitions: Mapping[str, Counts], homes: Mapping[str, int]
) -> list[tuple[str, int]]:
    """Return the partitions and tasks of each worker by the plan that the workers will make."""
    numbers = [str(number) for number in range(1, workers + 1)]
    weights = {name: _waiting(counts) for name, counts in partitions.items()}
    written = {name: str(number) for name, number in homes.items() if name in weights and number <= workers}
    plan = assigned(weights, numbers, {}, written)
    found = {number: sorted(name for name, owner in plan.items() if owner == number) for number in numbers}
    return [(", ".join(names) or "waits", sum(weights[name] for name in names)) for names in found.values()]


def _only(counts: Mapping[str, Counts], names: list[str]) -> dict[str, Counts]:
    return {name: counts[name] for name in names if name in counts}


def _waiting(counts: Counts) -> int:
    return counts.pending + counts.delayed
