"""What the workers of a job do while they run none of the tasks left: say so, and wait or end.

Such tasks are of steps that the code of these workers lacks, or are left out by `--steps` or `--partitions`.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from shoal.core.model import RunState, Stats, StepGroup, WorkerStatus
from shoal.core.values import counted
from shoal.fleet.command_hints import command_for_job, command_on
from shoal.fleet.job import Job
from shoal.fleet.status.at_work import is_at_work
from shoal.fleet.status.progress import Snapshot
from shoal.queue.contract import QueueReports
from shoal.scrape.scraper import Scraper

# Time to start a worker for the others, as a script does that starts one after the other. An idle run is
# read after 7.5 and 15.5 seconds.
UNSERVED_SECONDS = 15.0
MAX_SHOWN = 10  # partitions in a message
STEPS, PARTITIONS = ("steps",), ("partitions",)
BOTH = STEPS + PARTITIONS


class Left(NamedTuple):
    """The tasks left, none of which a job's workers run, because of steps, partitions or both together."""

    kinds: tuple[str, ...]
    groups: Mapping[StepGroup, int]

    def text(self, job: Job, run_id: str) -> str:
        """Return the tasks, and why the job's workers do not run them."""
        counts = Counter[str]()
        for (step, partition), count in self.groups.items():
            where = f" in partition {partition}" if partition else " without a partition"
            counts[f"of {step}" + (where if "partitions" in self.kinds else "")] += count
        parts = [f"{counted(count, 'task')} {name}" for name, count in sorted(counts.items())]
        if (rest := len(parts) - MAX_SHOWN) > 0:
            all_of_them = command_on(job.queue_url, f"partitions {run_id}")
            parts[MAX_SHOWN:] = [f"and those of {rest:,} more (all: {all_of_them})"]
        options = [f"--{kind} {','.join(getattr(job, kind))}" for kind in self.limits(job)]
        reasons = [f"{' '.join(options)} does not run"] if options else []
        if "steps" in self.kinds and not job.steps:
            reasons.append("the code here has no step for")
        return f"{', '.join(parts)}, which {' or '.join(reasons)}"

    def limits(self, job: Job) -> list[str]:
        """Return the options that leave the tasks out; none if the job's code is what lacks their steps."""
        return [kind for kind in self.kinds if getattr(job, kind)]

    def as_json(self) -> dict[str, dict[str, int]]:
        """Return the tasks by step or by partition; by each if only both together leave them out."""
        return {kind: self._tasks(BOTH.index(kind)) for kind in self.kinds}

    def _tasks(self, position: int) -> dict[str, int]:
        counts = Counter[str]()
        for group, count in self.groups.items():
            counts[group[position]] += count
        return dict(counts)


def left_to_others(stats: Stats, job: Job) -> Left | None:
    """Return the tasks left if a job's workers run none of them."""
    steps = job.scraper.steps_of_tasks(job.steps)
    partitions = None if job.sharing else job.partitions
    if not stats.left or _runs_any(stats.left, steps, partitions):
        return None
    if not _runs_any(stats.left, steps, None):
        return Left(STEPS, stats.left)
    return Left(BOTH if _runs_any(stats.left, None, partitions) else PARTITIONS, stats.left)


def is_served(left: Left, workers: Iterable[WorkerStatus], scraper: Scraper) -> bool:
    """Return whether one of the workers runs one of the tasks."""
    return any(
        _runs_any(left.groups, _steps_of(worker, scraper), worker.info.get("partitions") or None)
        for worker in workers
    )


def _steps_of(worker: WorkerStatus, scraper: Scraper) -> Collection[str] | None:
    names = worker.info.get("steps")
    # Its code may have steps that this one lacks.
    return {*names, *scraper.steps_of_tasks(names)} if names else None


def _runs_any(
    groups: Iterable[StepGroup], steps: Collection[str] | None, partitions: Collection[str] | None
) -> bool:
    """Return whether a worker with these steps and partitions runs one of the groups; None means all."""
    return any(
        (steps is None or step in steps) and (partitions is None or partition in partitions)
        for step, partition in groups
    )


class LeftToOthers:
    """Tells the user that only tasks of others are left, and ends a command that waits for nobody."""

    def __init__(
        self,
        queue: QueueReports,
        job: Job,
        *,
        say: Callable[[str], None],
        stop: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue, self._job, self._say, self._stop, self._clock = queue, job, say, stop, clock
        self._said: tuple[tuple[str, ...], bool] | None = None
        self._unserved_since: float | None = None
        self._has_ended = False

    async def check(self, snapshot: Snapshot) -> None:
        """Look at the run as it is now; raises the queue's error."""
        left = left_to_others(snapshot.stats, self._job)
        if not left or snapshot.run.state is not RunState.RUNNING or self._has_ended:
            self._said = self._unserved_since = None
            return
        served = is_served(left, await self._workers(snapshot.run.id), self._job.scraper)
        waits = self._job.joins and bool(left.limits(self._job))
        if self._said != (left.kinds, served):
            self._said = (left.kinds, served)
            self._say(self._message(snapshot.run.id, left, served=served, waits=waits))
        self._end_if_unserved(served=served or waits)

    async def _workers(self, run_id: str) -> list[WorkerStatus]:
        return [worker for worker in await self._queue.workers(run_id) if is_at_work(worker)]

    def _end_if_unserved(self, *, served: bool) -> None:
        now = self._clock()
        if served:
            self._unserved_since = None
        elif self._unserved_since is None:
            self._unserved_since = now
        elif now - self._unserved_since >= UNSERVED_SECONDS:
            self._has_ended = True
            self._stop()

    def _message(self, run_id: str, left: Left, *, served: bool, waits: bool) -> str:
        what = f"Left: {left.text(self._job, run_id)}."
        if served:
            return f"{what} Other workers run them; waiting until no task is left."
        then = "waiting for one" if waits else f"ending in {UNSERVED_SECONDS:.0f} s if none does"
        command = command_for_job(self._job, "shoal", "work", self._job.name, "--run", run_id)
        step, name = next(iter(left.groups))[0], self._job.scraper.name
        how = (
            f"To run them: {command}"
            if left.limits(self._job)
            else f"Run them with code that has it; a step that was renamed may keep its name: "
            f"@{name}.step(name={step!r})"
        )
        return f"{what} No worker runs them; {then}. {how}"
