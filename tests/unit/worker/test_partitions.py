"""A worker's share follows the plan, and is not trusted once it is old."""

import msgspec
import pytest

from shoal.core.model import SECOND, ZERO, Note
from shoal.worker.partitions import PLAN, Holding, PartitionPlan, PartitionRole, PartitionShare, topic_of

WORKER = "worker-1"


class FakeNotes:
    """The notes of a queue."""

    def __init__(self):
        self.plan, self.stamp = None, 0

    def write(self, **holdings):
        self.plan = PartitionPlan(
            seats=[WORKER], holdings={name: Holding([owner]) for name, owner in holdings.items()}
        )
        self.stamp += 1

    async def notes(self, topic, keys):
        assert (topic, keys) == (topic_of("run"), [PLAN])
        value = msgspec.json.encode(self.plan)
        return {PLAN: Note(value=value, stamp=self.stamp, age=ZERO)} if self.plan else {}


@pytest.fixture
def notes():
    return FakeNotes()


@pytest.fixture
def share(notes):
    return PartitionShare(notes, "run", WORKER, PartitionRole(heartbeat=5 * SECOND))


async def test_without_a_plan_there_is_nothing_to_claim(share):
    assert not await share.refresh()
    assert (share.partitions, share.fence) == (frozenset(), None)


async def test_a_refresh_returns_whether_a_partition_was_taken_away(notes, share):
    notes.write(x=WORKER, y="other")
    assert not await share.refresh()
    assert (share.partitions, share.fence) == ({"x"}, (topic_of("run"), PLAN, 1))
    notes.write(x=WORKER, y=WORKER)
    assert not await share.refresh()
    notes.write(x="other", y=WORKER)
    assert await share.refresh()
    assert (share.partitions, share.fence) == ({"y"}, (topic_of("run"), PLAN, 3))


async def test_a_plan_that_was_not_read_for_a_heartbeat_is_not_trusted(share, monkeypatch):
    assert not share.is_fresh(0.0)
    monkeypatch.setattr("shoal.worker.partitions.exact_time", lambda: 100.0)
    await share.refresh()
    assert share.is_fresh(105.0) and not share.is_fresh(105.1)
