"""What a command with `--steps` does while only tasks of other steps are left: say so, and wait or end."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence

from shoal.core.model import RunState, Stats, WorkerStatus
from shoal.core.values import counted
from shoal.fleet.command_hints import command_for_job
from shoal.fleet.job import Job
from shoal.fleet.status.at_work import is_at_work
from shoal.fleet.status.progress import Snapshot
from shoal.queue.contract import QueueReports

# Time to start a worker for the other steps, as a script does that starts one after the other. An idle run is
# read after 7.5 and 15.5 seconds.
UNSERVED_SECONDS = 15.0


def left_to_others(stats: Stats, steps: Sequence[str] | None) -> dict[str, int]:
    """Return the tasks left by step if all of them are of steps that are not served; otherwise nothing."""
    left = {name: counts.remaining for name, counts in stats.steps.items() if counts.remaining}
    return {} if not steps or any(step in left for step in steps) else left


def is_served(left: Collection[str], workers: Iterable[WorkerStatus]) -> bool:
    """Return whether one of the workers runs tasks of one of the steps."""
    served = (worker.info.get("steps") for worker in workers)
    return any(not steps or not set(left).isdisjoint(steps) for steps in served)


def tasks_of(left: dict[str, int]) -> str:
    """Return the tasks left by step as text."""
    return ", ".join(f"{counted(count, 'task')} of {step}" for step, count in sorted(left.items()))


class OtherSteps:
    """Tells the user that only tasks of other steps are left, and ends a command that waits for nobody."""

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
        self._said: tuple[Collection[str], bool] | None = None
        self._unserved_since: float | None = None
        self._has_ended = False

    async def check(self, snapshot: Snapshot) -> None:
        """Look at the run as it is now; raises the queue's error."""
        left = left_to_others(snapshot.stats, self._job.steps)
        if not left or snapshot.run.state is not RunState.RUNNING or self._has_ended:
            self._said = self._unserved_since = None
            return
        served = is_served(left, await self._workers(snapshot.run.id))
        if self._said != (left.keys(), served):
            self._said = (left.keys(), served)
            self._say(self._message(snapshot.run.id, left, served=served))
        self._end_if_unserved(served=served)

    async def _workers(self, run_id: str) -> list[WorkerStatus]:
        return [worker for worker in await self._queue.workers(run_id) if is_at_work(worker)]

    def _end_if_unserved(self, *, served: bool) -> None:
        now = self._clock()
        if served or self._job.joins:
            self._unserved_since = None
        elif self._unserved_since is None:
            self._unserved_since = now
        elif now - self._unserved_since >= UNSERVED_SECONDS:
            self._has_ended = True
            self._stop()

    def _message(self, run_id: str, left: dict[str, int], *, served: bool) -> str:
        own = ",".join(self._job.steps or ())
        what = f"Only {tasks_of(left)} {'is' if sum(left.values()) == 1 else 'are'} left, which --steps {own}"
        if served:
            return f"{what} does not run. Other workers do; this command waits until no task is left."
        known = [step for step in sorted(left) if step in self._job.scraper.steps]
        words = ("shoal", "work", self._job.name, "--run", run_id, "--steps", ",".join(known))
        how = f" To run them: {command_for_job(self._job, *words)}" if known else ""
        then = (
            "This command waits for such a worker."
            if self._job.joins
            else f"This command ends in {UNSERVED_SECONDS:.0f} s if none starts."
        )
        return f"{what} does not run, nor does any worker. {then}{how}"
