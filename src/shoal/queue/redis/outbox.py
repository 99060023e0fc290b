"""The outboxes of a cluster: tasks that one shard has taken in, and that belong to another."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shoal.core.errors import QueueError
from shoal.queue.redis.server import Server
from shoal.queue.redis.wire import Parcel, read_parcels

FORWARD = 100  # entries at a time
HOPS = 2  # a follow-up task goes to the shard of its key, and from there to the shard of its host
KEEP = 5.0  # seconds; what was delivered longer ago is delivered once more, and forgotten
DELIVERY_TIMEOUT = 2.0  # seconds; a shard that does not answer must not hold up the tasks of the others
RETRY_AFTER = 1.0  # seconds for which nothing is delivered to a shard that has failed
OUTBOX, DELIVERED = "outbox", "delivered"

# To a shard: the run, when the tasks came in, and the tasks. Says whether it has to send some of them on.
Deliver = Callable[[int, str, str, Sequence[Parcel]], Awaitable[bool]]


class Place(NamedTuple):
    """A stream of one run in one shard."""

    shard: int
    run_id: str
    number: int
    stream: str


@dataclass(slots=True)
class Batch:
    """Tasks for one shard that came in at the same moment, and the entries that hold them."""

    at: str
    entries: list[bytes] = field(default_factory=list)
    parcels: list[Parcel] = field(default_factory=list)


@dataclass(slots=True)
class Turn:
    """The callers who wait for a pass through a stream; a pass serves all who came before it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    asked: int = 0
    served: int = 0
    targets: frozenset[int] = frozenset()


class Outboxes:
    """Hands over what lies in the outboxes.

    Many clients may do so at once: an entry is removed only when its shard has taken it, and a shard takes
    it once. Within a client one pass at a time goes through a stream, and delivering never starts another.
    """

    def __init__(self, server: Server, deliver: Deliver) -> None:
        self._server, self._deliver = server, deliver
        self._turns: dict[Place, Turn] = {}
        self._away: dict[int, float] = {}

    async def forward(
        self, run_id: str, number: int, shards: Iterable[int], ripe: Iterable[int] = ()
    ) -> None:
        """Hand over the tasks in the outboxes of shards, as far as that can be done now.

        The `ripe` ones hand over once more what they delivered a while ago: the other may have failed over.
        """
        todo = frozenset(shards) | await self._pass_all(ripe, run_id, number, DELIVERED)
        for _ in range(HOPS):
            todo = await self._pass_all(todo, run_id, number, OUTBOX)

    async def _pass_all(self, shards: Iterable[int], run_id: str, number: int, stream: str) -> frozenset[int]:
        places = (Place(shard, run_id, number, stream) for shard in shards)
        return frozenset().union(*await asyncio.gather(*map(self._pass, places)))

    async def _pass(self, place: Place) -> frozenset[int]:
        """Go through a stream, or share a pass that began later; return the shards to look at next."""
        turn = self._turns.setdefault(place, Turn())
        turn.asked += 1
        mine = turn.asked
        async with turn.lock:
            if turn.served < mine:
                serves, turn.targets = turn.asked, frozenset()
                with suppress(
                    QueueError
                ):  # the tasks are safe where they are, and the next claim tries again
                    turn.targets = frozenset(await self._hand_over(place))
                turn.served = serves
            if turn.served == turn.asked:
                self._turns.pop(place, None)
            return turn.targets

    async def _hand_over(self, place: Place) -> set[int]:
        sending: set[int] = set()
        first, last = "-", await self._last(place)
        key = self._server.key(place.shard, f"{place.number}:{place.stream}")
        while entries := await self._server.command("XRANGE", key, first, last, "COUNT", FORWARD):
            sending |= await self._hand_over_some(place, entries)
            if len(entries) < FORWARD:
                break
            first = f"({entries[-1][0].decode()}"
        return sending

    async def _last(self, place: Place) -> str:
        if place.stream == OUTBOX:
            return "+"
        now = int(await self._server.call("clock", place.shard))
        return str(max(0, int(now / 1_000 - KEEP * 1_000)))

    async def _hand_over_some(self, place: Place, entries: Sequence[tuple[bytes, Any]]) -> set[int]:
        """Hand over entries to all shards at once, to each in their order; return who has to send some on."""
        by_target = _batches(entries)
        answers = await asyncio.gather(
            *(self._deliver_to(target, place.run_id, batches) for target, batches in by_target.items())
        )
        taken = [entry for delivered, _ in answers for entry in delivered]
        if taken:
            await self._server.call("delivered", place.shard, place.number, place.stream, *taken)
        return {target for target, (_, sends) in zip(by_target, answers, strict=True) if sends}

    async def _deliver_to(
        self, target: int, run_id: str, batches: Iterable[Batch]
    ) -> tuple[list[bytes], bool]:
        """Deliver to one shard until it fails; return the entries that it has taken."""
        taken: list[bytes] = []
        sends = False
        loop = asyncio.get_running_loop()
        for batch in batches:
            if self._away.get(target, 0.0) > loop.time():
                break
            try:
                async with asyncio.timeout(DELIVERY_TIMEOUT):
                    sends |= await self._deliver(target, run_id, batch.at, batch.parcels)
            except (QueueError, TimeoutError):
                self._away[target] = loop.time() + RETRY_AFTER
                break
            taken += batch.entries
        return taken, sends


def _batches(entries: Sequence[tuple[bytes, Any]]) -> dict[int, list[Batch]]:
    by_target: dict[int, list[Batch]] = {}
    for entry, fields in entries:
        at = fields[b"at"].decode()
        batches = by_target.setdefault(int(fields[b"shard"]), [])
        if not batches or batches[-1].at != at:
            batches.append(Batch(at))
        batches[-1].entries.append(entry)
        batches[-1].parcels += read_parcels(fields[b"tasks"])
    return by_target
