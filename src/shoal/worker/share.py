"""A worker's share of a run: the partitions that it may claim by the plan of now.

The plan is a note that the launchers of all machines write. A worker only reads it, and claims by it with a
fence, so that by a plan that it slept through it gets nothing.
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from math import inf

import msgspec

from shoal.core.model import SECOND, Note
from shoal.queue.contract import Fence, Queue

PLAN = "plan"
MEMBER = "worker "  # what the key of a live worker's note begins with
HEARTBEAT = 5 * SECOND
LOOKS = 5  # in one heartbeat


class Sharing(msgspec.Struct, kw_only=True, frozen=True):
    """How a run is to be shared out by partitions."""

    exclusive: bool = False
    homes: dict[str, int] = {}  # the number of the worker that a written table gives a partition to
    heartbeat: timedelta = HEARTBEAT

    @property
    def mode(self) -> str:
        """What is typed for it."""
        return "exclusive" if self.exclusive else "auto"

    @property
    def look_every(self) -> float:
        """Seconds between two looks at the plan and at who is there."""
        return self.heartbeat.total_seconds() / LOOKS


class Holding(msgspec.Struct, frozen=True):
    """Who may claim a partition, and who may do so as soon as nobody holds a lease of it any more."""

    workers: list[str] = []
    coming: str = ""
    held: float = 0.0  # seconds, when the plan was written


class Plan(msgspec.Struct, kw_only=True, frozen=True):
    """Which worker serves which partition of a run."""

    exclusive: bool = False
    seats: list[str] = []  # worker number n is at n - 1; "" is a place that nobody has
    homes: dict[str, int] = {}
    holdings: dict[str, Holding] = {}

    def of(self, worker_id: str) -> frozenset[str]:
        """Return the partitions that a worker may claim."""
        return frozenset(name for name, holding in self.holdings.items() if worker_id in holding.workers)


_plan = msgspec.json.Decoder(Plan)
NO_PLAN = Plan()


def topic_of(run_id: str) -> str:
    """Return where the plan of a run and its workers are noted."""
    return f"partitions {run_id}"


def read_plan(notes: Mapping[str, Note]) -> Plan:
    """Return the plan among the notes of a run; without one nobody may claim anything."""
    return _plan.decode(notes[PLAN].value) if PLAN in notes else NO_PLAN


class Share:
    """What one worker may claim, as far as it knows."""

    def __init__(self, queue: Queue, run_id: str, worker_id: str, sharing: Sharing) -> None:
        self.partitions: frozenset[str] = frozenset()
        self.fence: Fence | None = None
        self.look_every = sharing.look_every
        self._fresh_for = sharing.heartbeat.total_seconds()
        self._seen = -inf
        self._queue, self._topic, self._me = queue, topic_of(run_id), worker_id

    async def look(self) -> bool:
        """Read the plan; return whether a partition was taken away."""
        asked = _now()
        notes = await self._queue.notes(self._topic, [PLAN])
        before, self.partitions = self.partitions, read_plan(notes).of(self._me)
        self.fence = (self._topic, PLAN, notes[PLAN].stamp) if PLAN in notes else None
        self._seen = asked
        return not before <= self.partitions

    def is_fresh(self, now: float) -> bool:
        """Say whether the plan was seen within a heartbeat; `now` is the event loop's time.

        A worker that was stopped for longer may wake with leases that are no longer its own.
        """
        return now - self._seen <= self._fresh_for


def _now() -> float:
    return asyncio.get_running_loop().time()
