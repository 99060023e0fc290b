"""The autoscaler: reads a run periodically, and sets the number of workers that it can use."""

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from shoal.core.errors import QueueUnavailable
from shoal.core.model import SECOND
from shoal.core.tasks import wait_for_event
from shoal.fleet.scale.decide import (
    RunLoad,
    ScaleBounds,
    ScaleHistory,
    ScaleTarget,
    apply_cooldown,
    decide_workers,
    load_of,
    pace_of,
)
from shoal.fleet.scale.drivers import Driver, DriverFailed
from shoal.queue.contract import Queue
from shoal.worker.run_settings import pause_of, read_note

POLL_INTERVAL = 5 * SECOND


class ScaleDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The load at one moment, and the decision made from it."""

    run_id: str
    load: RunLoad
    wanted: ScaleTarget
    workers: int  # before the decision
    target: int

    @property
    def why(self) -> str:
        """The reason, in short."""
        waiting = (
            f"; {self.wanted.workers} would be enough, after the cooldown"
            if self.target > self.wanted.workers
            else ""
        )
        return self.wanted.why + waiting

    def as_json(self) -> dict[str, Any]:
        """Return the fields that `shoal scale --json` promises."""
        return {
            "run_id": self.run_id,
            "ready": self.load.ready,
            "leased": self.load.leased,
            "later": self.load.later,
            "hosts": self.load.hosts,
            "most_useful": self.load.most_useful,
            "wanted": self.wanted.workers,
            "workers": self.workers,
            "target": self.target,
            "why": self.why,
        }


class Autoscaler:
    """Scales the workers of one run until it is stopped.

    `pace` is how many tasks per second one worker handles; by default what the run's `pause` allows.
    """

    def __init__(
        self,
        queue: Queue,
        run_id: str,
        driver: Driver,
        bounds: ScaleBounds,
        *,
        pace: float | None = None,
        every: timedelta = POLL_INTERVAL,
        on_decision: Callable[[ScaleDecision], None] = lambda decision: None,
        on_trouble: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._queue, self._run_id, self._driver, self._bounds = queue, run_id, driver, bounds
        self._pace, self._every = pace, every
        self._on_decision, self._on_trouble = on_decision, on_trouble
        self._history: ScaleHistory | None = None
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Make no more decisions; the workers stay as they are."""
        self._stopping.set()

    async def step(self) -> ScaleDecision:
        """Decide once, and apply the decision with the driver."""
        run = await self._queue.run(self._run_id)
        pace = self._pace or pace_of(pause_of((await read_note(self._queue, run.id)).settings))
        load = await load_of(self._queue, run, pace=pace)
        workers, now = await self._driver.count(), timedelta(seconds=time.monotonic())
        if self._history is None:
            # An earlier scaler may have had a reason that is only a moment old.
            self._history = ((now, min(workers, self._bounds.most)),)
        if run.state.has_ended:
            # A worker started now would end at once, however many there were a moment ago.
            wanted, target = ScaleTarget(0, f"the run has ended: {run.reason or run.state}"), 0
        else:
            wanted = decide_workers(load, self._bounds)
            target, self._history = apply_cooldown(now, wanted.workers, self._history, self._bounds.cooldown)
        # With no tasks left, a new worker would end as soon as it starts.
        if target < workers or (target > workers and load.remaining):
            await self._driver.set(target)
        return ScaleDecision(run_id=run.id, load=load, wanted=wanted, workers=workers, target=target)

    async def run(self, *, until_drained: bool = False) -> None:
        """Decide periodically until `stop`, or until the run and its surplus workers have ended."""
        while not self._stopping.is_set():
            try:
                decision = await self.step()
                self._on_decision(decision)
                if until_drained and await self._is_over(decision):
                    return
            except (QueueUnavailable, DriverFailed) as error:
                self._on_trouble(str(error))
            await wait_for_event(self._stopping, self._every.total_seconds())

    async def _is_over(self, decision: ScaleDecision) -> bool:
        state = (await self._queue.run(self._run_id)).state
        has_ended = state.has_ended or not decision.load.remaining
        return has_ended and await self._driver.count() <= self._bounds.least
