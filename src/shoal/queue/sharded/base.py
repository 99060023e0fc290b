"""What all verbs of a queue on several servers share."""

from shoal.core.model import Run
from shoal.queue.sharded.links.deliveries import Deliveries
from shoal.queue.sharded.links.outbox import Outbox
from shoal.queue.sharded.members import Members
from shoal.queue.sharded.runs import ShardedRuns
from shoal.queue.sharded.supply import ServerSupply


class ShardedBase:
    """The servers, and the runs on them."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._runs = ShardedRuns(members)
        self._deliveries = Deliveries(self._runs)
        self._outbox = Outbox(members, self._deliveries)
        self._supply = ServerSupply()

    async def _find(self, run_id: str) -> Run:
        """Return a run that has all that this process has settled; raises UnknownRun."""
        await self._deliveries.flush(run_id)
        return await self._runs.find(run_id)
