"""The autoscaler: looks at a run again and again, and has as many workers as it can use."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shoal.core.errors import QueueUnavailable
from shoal.core.model import SECOND
from shoal.fleet.drivers.contract import Driver, DriverFailed
from shoal.fleet.forecast import PACE, Load, load_of
from shoal.fleet.scaling import Bounds, Memory, Wish, decide, wish
from shoal.queue.contract import Queue

LOOK_EVERY = 5 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was found at one look, and what was made of it."""

    run_id: str
    load: Load
    wish: Wish
    workers: int  # before
    target: int

    @property
    def why(self) -> str:
        """The reason in a few words."""
        waiting = (
            f"; {self.wish.workers} would do, and are waited for" if self.target > self.wish.workers else ""
        )
        return self.wish.why + waiting

    def as_json(self) -> dict[str, Any]:
        """Return the fields that `shoal scale --json` promises."""
        return {
            "run_id": self.run_id,
            "ready": self.load.ready,
            "leased": self.load.leased,
            "later": self.load.later,
            "hosts": self.load.hosts,
            "most_useful": self.load.most_useful,
            "wanted": self.wish.workers,
            "workers": self.workers,
            "target": self.target,
            "why": self.why,
        }


def monotonic() -> timedelta:
    """Return a time that only ever grows."""
    return timedelta(seconds=time.monotonic())


class Scaler:
    """Scales the workers of one run until it is stopped."""

    def __init__(
        self,
        queue: Queue,
        run_id: str,
        driver: Driver,
        bounds: Bounds,
        *,
        pace: float = PACE,
        every: timedelta = LOOK_EVERY,
        clock: Callable[[], timedelta] = monotonic,
        on_decision: Callable[[Decision], None] = lambda decision: None,
        on_trouble: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._queue, self._run_id, self._driver, self._bounds = queue, run_id, driver, bounds
        self._pace, self._every, self._clock = pace, every, clock
        self._on_decision, self._on_trouble = on_decision, on_trouble
        self._memory: Memory | None = None
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Make no more decisions; the workers stay as they are."""
        self._stopping.set()

    async def look(self, *, act: bool = True) -> Decision:
        """Decide once, and let the driver have it."""
        run = await self._queue.run(self._run_id)
        load = await load_of(self._queue, run, pace=self._pace)
        workers, now = await self._driver.count(), self._clock()
        if self._memory is None:
            # Whoever scaled before may have had a reason that is only a moment old.
            self._memory = Memory(((now, min(workers, self._bounds.most)),))
        if run.state.has_ended:
            # A worker that is started now would end at once, however many there were a moment ago.
            wished, target = Wish(0, f"the run has ended: {run.reason or run.state}"), 0
        else:
            wished = wish(load, self._bounds)
            target, self._memory = decide(now, wished.workers, self._memory, self._bounds.cooldown)
        # Where nothing is left to do, a new worker would end as soon as it has begun.
        if act and (target < workers or (target > workers and load.remaining)):
            await self._driver.set(target)
        return Decision(run_id=run.id, load=load, wish=wished, workers=workers, target=target)

    async def run(self, *, until_drained: bool = False) -> None:
        """Decide again and again until `stop`, or until the run has ended and so have the surplus workers."""
        while not self._stopping.is_set():
            try:
                decision = await self.look()
                self._on_decision(decision)
                if until_drained and await self._is_over(decision):
                    return
            except (QueueUnavailable, DriverFailed) as error:
                self._on_trouble(str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._every.total_seconds()):
                    await self._stopping.wait()

    async def _is_over(self, decision: Decision) -> bool:
        state = (await self._queue.run(self._run_id)).state
        has_ended = state.has_ended or not decision.load.remaining
        return has_ended and await self._driver.count() <= self._bounds.least
