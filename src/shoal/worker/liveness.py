"""Whether a worker's process still works, judged by what it writes into shared memory; without a clock."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from math import inf

from shoal.worker.marks import Mark

LOOK_EVERY = 0.5  # seconds between two looks
# A keeper that looked later than this was stalled itself, as in a suspended machine: it has seen nothing.
LONGEST_GAP = 5 * LOOK_EVERY
SHORTEST_LIMIT = 5.0  # seconds; a busy machine may hold a healthy loop up for longer than a very short lease
START_LIMIT = 300.0  # seconds that loading the scraper may take; nothing is leased meanwhile
MOST_LOST_THREADS = 8


class Trouble(StrEnum):
    """Why a worker's process must be ended."""

    HUNG = "hung"  # a step has not ended in its time
    FROZEN = "frozen"  # the event loop does not turn, and no step is running that may block it
    STUCK = "stuck"  # the loop turns, but a task does not come to its end


@dataclass(frozen=True, slots=True)
class Look:
    """What is to be seen of a worker at one moment."""

    at: float  # by the machine's monotonic clock
    beats: int | None  # of its event loop; None while the count is being written
    marks: Sequence[Mark]
    is_stopped: bool = False  # by a signal: then not even a step is running


@dataclass(slots=True)
class Liveness:
    """Adds up for how long a worker was silent while its keeper was awake to hear it."""

    limit: float  # seconds for which the loop may be silent
    step_limit: Callable[[int], float]  # seconds that the step of the lease with this number may take
    silence: float = field(default=0.0, init=False)
    awake: float = field(default=0.0, init=False)  # seconds that the keeper has looked on
    has_begun: bool = field(default=False, init=False)  # whether the loop has turned at all
    _last: Look | None = field(default=None, init=False)
    _running: dict[Mark, float] = field(default_factory=dict, init=False)

    @classmethod
    def within(cls, lease: timedelta, step_limit: Callable[[int], float]) -> "Liveness":
        """Return one that judges a worker whose leases last this long."""
        return cls(max(lease.total_seconds(), SHORTEST_LIMIT), step_limit)

    @property
    def is_silent(self) -> bool:
        """Whether the worker is silent for long enough to say so, and not yet to end it."""
        return self.has_begun and self.silence >= self.limit / 2

    def judge(self, look: Look) -> Trouble | None:
        """Take in what is to be seen now; return why the worker must be ended, if it must."""
        gap = self._gap(look)
        self._running = {mark: self._running.get(mark, -gap) + gap for mark in look.marks}
        late = [mark for mark, seconds in self._running.items() if self._is_late(mark, seconds)]
        is_busy = len(late) < len(look.marks) and not look.is_stopped
        # After a stall of its own the keeper begins again: the worker may have been stalled with it.
        is_heard = self._turned(look) or is_busy or not gap
        self.silence, self.awake = 0.0 if is_heard else self.silence + gap, self.awake + gap
        self.has_begun = self.has_begun or bool(look.beats)
        self._last = look
        if self._is_hung(late):
            return Trouble.HUNG
        if self.silence >= (self.limit if self.has_begun else START_LIMIT):
            return Trouble.FROZEN
        return None

    def _is_late(self, mark: Mark, seconds: float) -> bool:
        # The worker gives up a step in a thread by itself, and needs a moment to say so.
        return seconds > self.step_limit(mark.number) + 2 * LOOK_EVERY

    def _gap(self, look: Look) -> float:
        gap = look.at - self._last.at if self._last else inf
        return gap if gap <= LONGEST_GAP else 0.0

    def _turned(self, look: Look) -> bool:
        last = self._last
        if look.is_stopped or last is None:
            return last is None
        return look.beats is None or look.beats != last.beats or _on_loop(look) != _on_loop(last)

    def _is_hung(self, late: Collection[Mark]) -> bool:
        if any(mark.blocks_loop for mark in late):
            return True
        # A step in a thread is given up by the worker itself, if its loop turns; the thread is lost, and some
        # may be. One that holds the interpreter's lock keeps the loop from turning.
        return len(late) > MOST_LOST_THREADS or bool(late and self.silence >= 2 * LOOK_EVERY)


def _on_loop(look: Look) -> Mark | None:
    return next((mark for mark in look.marks if mark.blocks_loop), None)
