"""What all verbs of a queue on several servers share."""

from shoal.queue.sharded.members import Members
from shoal.queue.sharded.runs import ShardedRuns


class ShardedBase:
    """The servers, and the runs on them."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._runs = ShardedRuns(members)
