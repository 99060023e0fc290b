"""Whether a worker process makes progress, judged by what it writes into shared memory; without a clock."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from math import inf

import msgspec

from shoal.worker.ipc.step_markers import StepMarker

SAMPLE_INTERVAL_SECONDS = 0.5
# A supervisor whose sample is later than this was stalled itself, as on a suspended machine: it saw nothing.
MAX_GAP = 5 * SAMPLE_INTERVAL_SECONDS
MIN_LIMIT = 5.0  # seconds; a busy machine may stall a healthy loop for longer than a very short lease
START_LIMIT = 300.0  # seconds that loading the scraper may take; nothing is leased meanwhile
MAX_LOST_THREADS = 8


class LivenessProblem(StrEnum):
    """Why a worker process must be killed."""

    HUNG = "hung"  # a step exceeded its time limit
    FROZEN = "frozen"  # the event loop does not run, and no step is running that may block it
    STUCK = "stuck"  # the loop runs, but a task does not finish
    LARGE = "large"  # the process takes too much memory


class LivenessSample(msgspec.Struct, frozen=True):
    """What the supervisor observes of a worker at one moment."""

    at: float  # by the machine's monotonic clock
    beats: int | None  # of its event loop; None while the count is being written
    markers: Sequence[StepMarker]
    is_stopped: bool = False  # by a signal: then not even a step is running


@dataclass(slots=True)
class Liveness:
    """Adds up how long a worker was silent while its supervisor was awake to notice."""

    limit: float  # seconds for which the loop may be silent
    step_limit: Callable[[int], float]  # seconds that the step of the lease with this number may take
    silence: float = field(default=0.0, init=False)
    awake: float = field(default=0.0, init=False)  # seconds that the supervisor has observed
    loop_silence: float = field(default=0.0, init=False)  # seconds since its loop ran, also for a busy step
    has_begun: bool = field(default=False, init=False)  # whether the loop has run at all
    _last: LivenessSample | None = field(default=None, init=False)
    _running: dict[StepMarker, float] = field(default_factory=dict, init=False)

    @classmethod
    def within(cls, lease: timedelta, step_limit: Callable[[int], float]) -> "Liveness":
        """Return a judge for a worker whose leases last this long."""
        return cls(max(lease.total_seconds(), MIN_LIMIT), step_limit)

    @property
    def is_silent(self) -> bool:
        """Whether the worker is silent for long enough to report it, and not yet to kill it."""
        return self.has_begun and self.silence >= self.limit / 2

    @property
    def is_loop_silent(self) -> bool:
        """Whether the worker's event loop has run before, and not since the last sample or longer."""
        return self.has_begun and self.loop_silence > 0

    def judge(self, sample: LivenessSample) -> LivenessProblem | None:
        """Take a new sample into account; return why the worker must be killed, if it must."""
        gap = self._gap(sample)
        self._running = {marker: self._running.get(marker, -gap) + gap for marker in sample.markers}
        late = [marker for marker, seconds in self._running.items() if self._is_late(marker, seconds)]
        is_busy = len(late) < len(sample.markers) and not sample.is_stopped
        # After a stall of its own the supervisor starts over: the worker may have been stalled with it.
        has_turned = self._has_turned(sample) or not gap
        is_alive = has_turned or is_busy
        self.loop_silence = 0.0 if has_turned else self.loop_silence + gap
        self.silence, self.awake = 0.0 if is_alive else self.silence + gap, self.awake + gap
        self.has_begun = self.has_begun or bool(sample.beats)
        self._last = sample
        if self._is_hung(late):
            return LivenessProblem.HUNG
        if self.silence >= (self.limit if self.has_begun else START_LIMIT):
            return LivenessProblem.FROZEN
        return None

    def _is_late(self, marker: StepMarker, seconds: float) -> bool:
        # The worker itself cancels a step in a thread at its limit, and needs a moment to report it.
        return seconds > self.step_limit(marker.number) + 2 * SAMPLE_INTERVAL_SECONDS

    def _gap(self, sample: LivenessSample) -> float:
        gap = sample.at - self._last.at if self._last else inf
        return gap if gap <= MAX_GAP else 0.0

    def _has_turned(self, sample: LivenessSample) -> bool:
        last = self._last
        if sample.is_stopped or last is None:
            return last is None
        return sample.beats is None or sample.beats != last.beats or _on_loop(sample) != _on_loop(last)

    def _is_hung(self, late: Collection[StepMarker]) -> bool:
        if any(marker.blocks_loop for marker in late):
            return True
        # The worker itself gives up a step in a thread, if its loop runs; the thread is lost, and a few may
        # be. A step that holds the GIL keeps the loop from running.
        return len(late) > MAX_LOST_THREADS or bool(late and self.silence >= 2 * SAMPLE_INTERVAL_SECONDS)


def _on_loop(sample: LivenessSample) -> StepMarker | None:
    return next((marker for marker in sample.markers if marker.blocks_loop), None)
