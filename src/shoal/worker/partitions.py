"""A worker's share of a run: the partitions that it may claim by the current plan.

The plan is a note that the launchers of all machines write. A worker only reads it, and claims with its
fence, so that a claim by an outdated plan gets nothing.
"""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from math import inf

import msgspec

from shoal.core.model import SECOND, Note
from shoal.core.tasks import exact_time
from shoal.queue.contract import Fence, SharedNotes

PLAN = "plan"
MEMBER = "worker "  # prefix of the key of a live worker's note
HEARTBEAT = 5 * SECOND
POLLS_PER_HEARTBEAT = 5


class PartitionMode(StrEnum):
    """How a plan assigns partitions: the values of `--partitions` that are no names."""

    AUTO = "auto"
    EXCLUSIVE = "exclusive"  # each to one worker

    @classmethod
    def of(cls, exclusive: bool) -> "PartitionMode":
        """Return the mode of a plan."""
        return cls.EXCLUSIVE if exclusive else cls.AUTO


class PartitionRole(msgspec.Struct, kw_only=True, frozen=True):
    """How the partitions of a run are assigned to workers."""

    exclusive: bool = False
    homes: dict[str, int] = {}  # the worker number that the user's table assigns to each partition
    heartbeat: timedelta = HEARTBEAT

    @property
    def mode(self) -> PartitionMode:
        """The value of `--partitions`."""
        return PartitionMode.of(self.exclusive)

    @property
    def poll_interval(self) -> timedelta:
        """The time between two reads of the plan and of the live workers."""
        return self.heartbeat / POLLS_PER_HEARTBEAT


class Holding(msgspec.Struct, frozen=True):
    """The owners of a partition, and the next one, which waits until no lease of the partition is held."""

    workers: list[str] = []
    coming: str = ""  # the next owner
    held: float = 0.0  # seconds, at the time the plan was written


class PartitionPlan(msgspec.Struct, kw_only=True, frozen=True):
    """Which worker serves which partition of a run."""

    exclusive: bool = False
    seats: list[str] = []  # worker number n is at n - 1; "" is a free number
    homes: dict[str, int] = {}
    holdings: dict[str, Holding] = {}

    def of(self, worker_id: str) -> frozenset[str]:
        """Return the partitions that a worker may claim."""
        return frozenset(name for name, holding in self.holdings.items() if worker_id in holding.workers)


_plan = msgspec.json.Decoder(PartitionPlan)
NO_PLAN = PartitionPlan()


def topic_of(run_id: str) -> str:
    """Return the note topic of a run's plan and workers."""
    return f"partitions {run_id}"


def read_plan(notes: Mapping[str, Note]) -> PartitionPlan:
    """Return the plan among the notes of a run; without one, no worker may claim anything."""
    return _plan.decode(notes[PLAN].value) if PLAN in notes else NO_PLAN


class PartitionShare:
    """The partitions that one worker may claim, as of its last read of the plan."""

    def __init__(self, queue: SharedNotes, run_id: str, worker_id: str, role: PartitionRole) -> None:
        self.partitions: frozenset[str] = frozenset()
        self.fence: Fence | None = None
        self.poll_interval = role.poll_interval
        self._fresh_for = role.heartbeat.total_seconds()
        self._read_at = -inf
        self._queue, self._topic, self._worker_id = queue, topic_of(run_id), worker_id

    async def refresh(self) -> bool:
        """Read the plan; return whether a partition was taken away."""
        sent_at = exact_time()
        notes = await self._queue.notes(self._topic, [PLAN])
        before, self.partitions = self.partitions, read_plan(notes).of(self._worker_id)
        self.fence = (self._topic, PLAN, notes[PLAN].stamp) if PLAN in notes else None
        self._read_at = sent_at
        return not before <= self.partitions

    def is_fresh(self, now: float) -> bool:
        """Return whether the plan was read within a heartbeat; `now` is the event loop's time.

        A worker that was suspended for longer may resume with leases that are no longer its own.
        """
        return now - self._read_at <= self._fresh_for
