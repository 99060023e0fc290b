"""What all verbs of a queue on several servers share."""

from shoal.core.model import Run
from shoal.queue.sharded.links.deliveries import Deliveries
from shoal.queue.sharded.members import Members
from shoal.queue.sharded.runs import ShardedRuns


class ShardedBase:
    """The servers, and the runs on them."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._runs = ShardedRuns(members)
        self._deliveries = Deliveries(self._runs)

    async def _find(self, run_id: str) -> Run:
        """Return a run that has all that this process has settled; raises UnknownRun."""
        await self._deliveries.flush(run_id)
        return await self._runs.find(run_id)
