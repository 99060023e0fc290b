"""The outboxes of a cluster: tasks that one shard has taken in, and that belong to another."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from shoal.core.errors import QueueError
from shoal.queue.redis.server import Server
from shoal.queue.redis.wire import Parcel, read_parcels

FORWARD = 100
PLACE = (b"shard", b"run", b"number", b"at")

# To a shard: the run, its number, when the tasks came in, and the tasks.
Deliver = Callable[[int, str, int, str, Sequence[Parcel]], Awaitable[None]]


class Outboxes:
    """Hands over what lies in the outboxes.

    Many may do so at once: an entry is removed only when its shard has taken it, and takes it once.
    """

    def __init__(self, server: Server, deliver: Deliver) -> None:
        self._server, self._deliver = server, deliver

    async def forward(self, shard: int) -> None:
        """Hand over the tasks in a shard's outbox, as far as that can be done now."""
        with suppress(QueueError):  # they are safe where they are, and the next claim tries again
            while await self._forward_some(f"{{shoal:{shard}}}:outbox"):
                pass

    async def _forward_some(self, outbox: str) -> bool:
        entries = await self._server.command("XRANGE", outbox, "-", "+", "COUNT", FORWARD)
        groups: dict[tuple[int, str, int, str], list[Parcel]] = {}
        for _, fields in entries:
            shard, run_id, number, at = (fields[name].decode() for name in PLACE)
            there = groups.setdefault((int(shard), run_id, int(number), at), [])
            there += read_parcels(fields[b"tasks"])
        for place, parcels in groups.items():
            await self._deliver(*place, parcels)
        if entries:
            await self._server.command("XDEL", outbox, *(key for key, _ in entries))
        return bool(entries)
