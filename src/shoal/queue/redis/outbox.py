"""The outboxes of a cluster: tasks that one shard has accepted and that belong to another."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from shoal.core.errors import QueueError
from shoal.core.model import SECOND
from shoal.queue.encoding import micros
from shoal.queue.redis.records import PackedTask, read_outgoing
from shoal.queue.redis.server import RedisServer

BATCH = 100  # entries at a time
MAX_HOPS = 2  # a follow-up task goes to the shard of its key, and from there to the shard of its host
REDELIVER_AFTER = 5 * SECOND  # what was delivered longer ago is delivered once more, and deleted
DELIVERY_TIMEOUT = 2 * SECOND  # a shard that does not respond must not delay the tasks of the others
RETRY_INTERVAL = SECOND  # for which nothing is delivered to a shard that has failed
OUTBOX, DELIVERED = "outbox", "delivered"

# Target shard, run, time of arrival, tasks. Returns whether the shard has to send some of them on.
Deliver = Callable[[int, str, str, Sequence[PackedTask]], Awaitable[bool]]


class OutboxStream(NamedTuple):
    """A stream of one run in one shard."""

    shard: int
    run_id: str
    number: int
    stream: str


class OutboxBatch(msgspec.Struct):
    """Tasks for one shard that arrived at the same moment, and the entries that hold them."""

    at: str
    entries: list[bytes] = msgspec.field(default_factory=list)
    tasks: list[PackedTask] = msgspec.field(default_factory=list)


@dataclass(slots=True, weakref_slot=True)
class OutboxTurn:
    """The callers that wait for a pass through a stream; a pass serves all that called before it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    requested: int = 0
    served: int = 0
    targets: frozenset[int] = frozenset()


class Outboxes:
    """Delivers the tasks in the outboxes.

    Many clients may do so at once: an entry is removed only when its shard has accepted it, and a shard
    accepts it once. Within a client one pass at a time reads a stream, and a delivery never starts another.
    """

    def __init__(self, server: RedisServer, deliver: Deliver) -> None:
        self._server, self._deliver = server, deliver
        self._turns: WeakValueDictionary[OutboxStream, OutboxTurn] = WeakValueDictionary()
        self._unavailable_until: dict[int, float] = {}

    async def forward(
        self, run_id: str, number: int, shards: Iterable[int], delivered: Iterable[int] = ()
    ) -> None:
        """Deliver the tasks in the outboxes of shards, as far as that is possible now.

        The shards `delivered` deliver once more what they delivered a while ago: the target may have failed
        over since.
        """
        todo = frozenset(shards) | await self._pass_all(delivered, run_id, number, DELIVERED)
        for _ in range(MAX_HOPS):
            todo = await self._pass_all(todo, run_id, number, OUTBOX)

    async def _pass_all(self, shards: Iterable[int], run_id: str, number: int, stream: str) -> frozenset[int]:
        streams = (OutboxStream(shard, run_id, number, stream) for shard in shards)
        return frozenset().union(*await asyncio.gather(*map(self._pass, streams)))

    async def _pass(self, stream: OutboxStream) -> frozenset[int]:
        """Read a stream once, or share a pass that began later; return the shards to read next."""
        turn = self._turns.setdefault(stream, OutboxTurn())  # without a caller it goes
        turn.requested += 1
        mine = turn.requested
        async with turn.lock:
            if turn.served < mine:
                serves, turn.targets = turn.requested, frozenset()
                # After an error the tasks stay in the stream, and the next claim tries again.
                with suppress(QueueError):
                    turn.targets = frozenset(await self._deliver_stream(stream))
                turn.served = serves
            return turn.targets

    async def _deliver_stream(self, stream: OutboxStream) -> set[int]:
        sending: set[int] = set()
        first, last = "-", await self._last(stream)
        key = self._server.key(stream.shard, f"{stream.number}:{stream.stream}")
        while entries := await self._server.command("XRANGE", key, first, last, "COUNT", BATCH):
            sending |= await self._deliver_entries(stream, entries)
            if len(entries) < BATCH:
                break
            first = f"({entries[-1][0].decode()}"
        return sending

    async def _last(self, stream: OutboxStream) -> str:
        if stream.stream == OUTBOX:
            return "+"
        now = int(await self._server.call("clock", stream.shard))
        return str(max(0, int((now - micros(REDELIVER_AFTER)) / 1_000)))

    async def _deliver_entries(self, stream: OutboxStream, entries: Sequence[tuple[bytes, Any]]) -> set[int]:
        """Deliver entries to all shards at once, to each in order; return those that have to send some on."""
        by_target = _batches(entries)
        replies = await asyncio.gather(
            *(self._deliver_to(target, stream.run_id, batches) for target, batches in by_target.items())
        )
        accepted = [entry for delivered, _ in replies for entry in delivered]
        if accepted:
            await self._server.call("delivered", stream.shard, stream.number, stream.stream, *accepted)
        return {target for target, (_, sends) in zip(by_target, replies, strict=True) if sends}

    async def _deliver_to(
        self, target: int, run_id: str, batches: Iterable[OutboxBatch]
    ) -> tuple[list[bytes], bool]:
        """Deliver to one shard until it fails; return the entries that it has accepted."""
        accepted: list[bytes] = []
        sends = False
        loop = asyncio.get_running_loop()
        for batch in batches:
            if self._unavailable_until.get(target, 0.0) > loop.time():
                break
            try:
                async with asyncio.timeout(DELIVERY_TIMEOUT.total_seconds()):
                    sends |= await self._deliver(target, run_id, batch.at, batch.tasks)
            except (QueueError, TimeoutError):
                self._unavailable_until[target] = loop.time() + RETRY_INTERVAL.total_seconds()
                break
            accepted += batch.entries
        return accepted, sends


def _batches(entries: Sequence[tuple[bytes, Any]]) -> dict[int, list[OutboxBatch]]:
    by_target: dict[int, list[OutboxBatch]] = {}
    for entry, fields in entries:
        at = fields[b"at"].decode()
        batches = by_target.setdefault(int(fields[b"shard"]), [])
        if not batches or batches[-1].at != at:
            batches.append(OutboxBatch(at))
        batches[-1].entries.append(entry)
        batches[-1].tasks += read_outgoing(fields[b"tasks"])
    return by_target
