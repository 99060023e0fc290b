"""How many workers a run should have: a decision without a clock of its own.

More workers come at once. Fewer come when so many would have been enough for a whole cool-down, so that a
worker is never let go and started again because the load trembles.
"""

from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from shoal.core.errors import InvalidSetting
from shoal.core.model import SECOND, ZERO
from shoal.fleet.forecast import Load

TASKS_PER_WORKER = 500
COOLDOWN = 30 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Between what a run is scaled, and how quickly."""

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
class Wish:
    """How many workers suit a load, and why not more."""

    workers: int
    why: str
    wasted: int = 0  # workers that the load alone would ask for, and that its hosts cannot use


@dataclass(frozen=True, slots=True)
class Memory:
    """What was wished for in the last cool-down, as far as it counts: each is less than the one before."""

    wishes: tuple[tuple[timedelta, int], ...] = ()


def wish(load: Load, bounds: Bounds) -> Wish:
    """Return the number of workers that suits a load, whatever was before."""
    by_tasks = min(ceil(load.under_way / bounds.tasks_per_worker), bounds.most)
    useful = load.most_useful
    by_hosts = by_tasks if useful is None else min(by_tasks, useful)
    workers = max(by_hosts, bounds.least)
    return Wish(workers, _why(load, bounds, by_tasks, by_hosts), by_tasks - by_hosts)


def decide(now: timedelta, wanted: int, memory: Memory, cooldown: timedelta) -> tuple[int, Memory]:
    """Return the most that was wished for within a cool-down, and what to remember."""
    kept = [(at, count) for at, count in memory.wishes if count > wanted and now - at < cooldown]
    wishes = (*kept, (now, wanted))
    return wishes[0][1], Memory(wishes)


def _why(load: Load, bounds: Bounds, by_tasks: int, by_hosts: int) -> str:
    tasks = f"{load.ready:,} ready and {load.leased:,} in hand"
    if by_hosts < by_tasks:
        hosts = "1 host" if load.hosts == 1 else f"{load.hosts:,} hosts"
        return f"{tasks}, but {hosts} at {load.rate:,.3g} pages/s: more than {by_hosts} would be waste"
    if by_tasks == bounds.most and load.under_way > bounds.most * bounds.tasks_per_worker:
        return f"{tasks}, and --max is {bounds.most}"
    if not load.under_way and load.later:
        return f"nothing can be done now; {load.later:,} wait for their time"
    return tasks
