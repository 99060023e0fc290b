"""Status of a run's partitions: the tasks left and the owners by the current plan."""

from datetime import timedelta

import msgspec

from shoal.core.model import ZERO, Counts
from shoal.fleet.partitions.membership import members_of
from shoal.fleet.status.rows.workers import PartitionRow
from shoal.queue.contract import Queue
from shoal.worker.partitions import PLAN, Holding, read_plan, topic_of


class PartitionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Current state of a partition; `since` is how long its owners, or its next owner, have been assigned."""

    name: str
    counts: Counts
    owners: tuple[str, ...] = ()
    coming: str | None = None  # the next owner, once the partition has no leases
    since: timedelta | None = None

    @property
    def is_left_alone(self) -> bool:
        """Whether it has tasks left, but neither an owner nor a next one."""
        return bool(self.counts.remaining) and not self.owners and self.coming is None

    def row(self) -> PartitionRow:
        """Return the partition as `shoal partitions --json` reports it."""
        return PartitionRow.of(
            self,
            self.counts,
            partition=self.name,
            done=self.counts.completed,
            since_seconds=round(self.since.total_seconds(), 1) if self.since is not None else None,
        )


async def partitions(queue: Queue, run_id: str) -> list[PartitionStatus]:
    """Return the partitions of a run by name; owners that are gone are left out."""
    stats = await queue.stats(run_id)
    notes = await queue.notes(topic_of(run_id))
    plan, members = read_plan(notes), members_of(notes)
    age = notes[PLAN].age if PLAN in notes else ZERO
    return [
        _status(name, counts, plan.holdings.get(name, Holding()), members, age)
        for name, counts in sorted(stats.partitions.items())
    ]


def _status(
    name: str, counts: Counts, holding: Holding, members: set[str], age: timedelta
) -> PartitionStatus:
    owners = tuple(worker for worker in holding.workers if worker in members)
    coming = holding.coming if holding.coming in members else None
    since = timedelta(seconds=holding.held) + age if owners or coming else None
    return PartitionStatus(name=name, counts=counts, owners=owners, coming=coming, since=since)
