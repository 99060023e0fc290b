"""The queue on several servers: every verb of the contract, over the queues of its members."""

from collections.abc import Sequence
from typing import Self

from shoal.queue.contract import Queue
from shoal.queue.sharded.admin import ShardedAdmin
from shoal.queue.sharded.layout import agree
from shoal.queue.sharded.members import Member, gather
from shoal.queue.sharded.notes import ShardedNotes
from shoal.queue.sharded.reports import ShardedReports
from shoal.queue.sharded.work import ShardedWork


class ShardedQueue(ShardedWork, ShardedReports, ShardedAdmin, ShardedNotes, Queue):
    """A queue whose hosts are spread over several servers: the tasks and limits of each are on one."""

    @classmethod
    async def open(cls, members: Sequence[Member]) -> Self:
        """Open the queue on these servers; raises QueueUnavailable if none can be reached.

        A server that is away is opened later. All are needed at the first opening, and when the list changes.
        """
        try:
            return cls(await agree(members))
        except BaseException:
            await gather(member.close() for member in members)
            raise

    async def close(self) -> None:
        await self._settlements.close()
        await self._deliveries.close()
        await gather(member.close() for member in self._members)

    async def migrate(self) -> int:
        return min(await self._members.call_all(lambda queue: queue.migrate()))
