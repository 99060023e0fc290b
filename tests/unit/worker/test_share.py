"""A worker's share follows the plan, and is not trusted once it is old."""

import msgspec
import pytest

from shoal.core.model import SECOND, ZERO, Note
from shoal.worker.share import PLAN, Holding, Plan, Share, Sharing, topic_of

ME = "me"


class Board:
    """A queue of which only the notes are there."""

    def __init__(self):
        self.plan, self.stamp = None, 0

    def write(self, **holdings):
        self.plan = Plan(seats=[ME], holdings={name: Holding([owner]) for name, owner in holdings.items()})
        self.stamp += 1

    async def notes(self, topic, keys):
        assert (topic, keys) == (topic_of("run"), [PLAN])
        value = msgspec.json.encode(self.plan)
        return {PLAN: Note(value=value, stamp=self.stamp, age=ZERO)} if self.plan else {}


@pytest.fixture
def board():
    return Board()


@pytest.fixture
def share(board):
    return Share(board, "run", ME, Sharing(heartbeat=5 * SECOND))


async def test_without_a_plan_there_is_nothing_to_claim(share):
    assert not await share.look()
    assert (share.partitions, share.fence) == (frozenset(), None)


async def test_a_look_tells_whether_something_was_taken_away(board, share):
    board.write(x=ME, y="other")
    assert not await share.look()
    assert (share.partitions, share.fence) == ({"x"}, (topic_of("run"), PLAN, 1))
    board.write(x=ME, y=ME)
    assert not await share.look()
    board.write(x="other", y=ME)
    assert await share.look()
    assert (share.partitions, share.fence) == ({"y"}, (topic_of("run"), PLAN, 3))


async def test_a_plan_that_was_not_seen_for_a_heartbeat_is_not_trusted(share, monkeypatch):
    assert not share.is_fresh(0.0)
    monkeypatch.setattr("shoal.worker.share._now", lambda: 100.0)
    await share.look()
    assert share.is_fresh(105.0) and not share.is_fresh(105.1)
