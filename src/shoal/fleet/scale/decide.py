"""Decides how many workers a run should have, without a clock of its own.

Scaling up is immediate. Scaling down waits until fewer workers have been enough for a whole cooldown, so that
a fluctuating load does not stop and restart workers.
"""

from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from shoal.core.errors import InvalidSetting
from shoal.core.model import SECOND, ZERO
from shoal.core.values import counted
from shoal.fleet.scale.load import RunLoad

TASKS_PER_WORKER = 500
COOLDOWN = 30 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleBounds:
    """Limits for scaling a run."""

    most: int
    least: int = 0
    tasks_per_worker: int = TASKS_PER_WORKER
    cooldown: timedelta = COOLDOWN

    def __post_init__(self) -> None:
        if self.most < 1:
            raise InvalidSetting("--max", f"must be at least 1, got {self.most}")
        if not 0 <= self.least <= self.most:
            raise InvalidSetting("--min", f"must be from 0 to --max, which is {self.most}, got {self.least}")
        if self.tasks_per_worker < 1:
            raise InvalidSetting("--tasks-per-worker", f"must be at least 1, got {self.tasks_per_worker}")
        if self.cooldown < ZERO:
            raise InvalidSetting("--cooldown", "cannot be negative")


@dataclass(frozen=True, slots=True)
class ScaleTarget:
    """How many workers a load needs, and why not more."""

    workers: int
    why: str
    wasted: int = 0  # workers that the number of tasks would need, but its hosts cannot use


@dataclass(frozen=True, slots=True)
class ScaleHistory:
    """The targets of the last cooldown that still count: each is less than the one before."""

    targets: tuple[tuple[timedelta, int], ...] = ()


def target_for(load: RunLoad, bounds: ScaleBounds) -> ScaleTarget:
    """Return the number of workers that a load needs, regardless of the history."""
    by_tasks = min(ceil(load.under_way / bounds.tasks_per_worker), bounds.most)
    useful = load.most_useful
    by_hosts = by_tasks if useful is None else min(by_tasks, useful)
    workers = max(by_hosts, bounds.least)
    return ScaleTarget(workers, _why(load, bounds, by_tasks, by_hosts), by_tasks - by_hosts)


def decide(
    now: timedelta, wanted: int, history: ScaleHistory, cooldown: timedelta
) -> tuple[int, ScaleHistory]:
    """Return the highest target within the cooldown, and the updated history."""
    kept = [(at, count) for at, count in history.targets if count > wanted and now - at < cooldown]
    targets = (*kept, (now, wanted))
    return targets[0][1], ScaleHistory(targets)


def _why(load: RunLoad, bounds: ScaleBounds, by_tasks: int, by_hosts: int) -> str:
    tasks = f"{load.ready:,} ready and {load.leased:,} leased"
    if by_hosts < by_tasks:
        hosts = counted(load.hosts, "host")
        return f"{tasks}, but {hosts} at {load.rate:,.3g} pages/s can't keep more than {by_hosts} busy"
    if by_tasks == bounds.most and load.under_way > bounds.most * bounds.tasks_per_worker:
        return f"{tasks}, and --max is {bounds.most}"
    if not load.under_way and load.later:
        return f"no task is ready; delayed: {load.later:,}"
    return tasks
