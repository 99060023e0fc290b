"""Reports on several servers: counts are added, lists are merged."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from shoal.core.errors import UnknownRun
from shoal.core.model import (
    OUTBOX_STEP,
    DeadFilter,
    DeadLetter,
    Durability,
    ExpiredTask,
    HostStatus,
    Run,
    Stats,
    StoredItem,
    StoredReject,
    TaskState,
    TaskStatus,
    WorkerStatus,
)
from shoal.queue.addresses import MAX_SERVERS
from shoal.queue.contract import Evictions, Queue, QueueReports, ServerStatus, StoreSize
from shoal.queue.cursors import check_keys, merge
from shoal.queue.sharded.base import ShardedBase
from shoal.queue.sharded.members import Member, gather
from shoal.queue.sharded.stats import add_stats, parcels_in
from shoal.queue.sharded.streams import cursor_at, if_known, join_cursor, place_of, split_cursor

Stored = TypeVar("Stored", StoredItem, StoredReject)
Listed = TypeVar("Listed", ExpiredTask, TaskStatus, HostStatus)


class ShardedReports(ShardedBase, QueueReports):
    """Shows what all servers hold."""

    async def durability(self) -> Durability:
        found = await self._members.call_all(lambda queue: queue.durability())
        texts = dict.fromkeys(one.text for one in found if not one.safe) or {found[0].text: None}
        return Durability(all(one.safe for one in found), " ".join(texts))

    async def check_for_workers(self) -> None:
        await self._members.call_all(lambda queue: queue.check_for_workers())

    async def evictions(self) -> Evictions | None:
        replies = await self._members.call_all(lambda queue: queue.evictions())
        found = [one for one in replies if one is not None]
        texts = dict.fromkeys(one.text for one in found)
        return Evictions(" ".join(texts), sum(one.count for one in found)) if found else None

    async def size(self) -> StoreSize:
        found = (await self._members.call_reachable(dict.fromkeys(self._members, _size))).given.values()
        # The text of a server may have figures of its own, which are not those of all.
        is_part = f" of {len(self._members)}" if len(found) < len(self._members) else ""
        return StoreSize(sum(one.bytes for one in found), f"{len(found)}{is_part} servers together")

    async def run(self, run_id: str) -> Run:
        return await self._find(run_id)

    async def runs(self) -> Sequence[Run]:
        return await self._runs.every()

    async def stats(self, run_id: str) -> Stats:
        async def read() -> Mapping[Member, Stats]:
            found = await self._members.call_all(partial(_stats, run_id))
            return dict(zip(self._members, found, strict=True))

        return await self._read_stats(run_id, read)

    async def reachable_stats(self, run_id: str) -> Stats:
        async def read() -> Mapping[Member, Stats]:
            calls = dict.fromkeys(self._members, partial(_stats, run_id))
            return (await self._members.call_reachable(calls)).given

        return await self._read_stats(run_id, read)

    async def _read_stats(self, run_id: str, read: Callable[[], Awaitable[Mapping[Member, Stats]]]) -> Stats:
        """Add counts; a run does not look finished while links are on their way to another server."""
        await self._find(run_id)
        found = await read()
        if not add_stats(found.values()).remaining:
            origins = [member for member, stats in found.items() if parcels_in(stats).remaining]
            if any(await gather(self._outbox.clear(run_id, origin) for origin in origins)):
                found = await read()
        unreachable = tuple(member.name for member in self._members if member not in found)
        return replace(add_stats(found.values()), unreachable=unreachable)

    def items(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredItem]:
        def read(queue: Queue, position: int) -> AsyncIterator[StoredItem]:
            return queue.items(run_id, step=step, after=position)

        return self._stored(run_id, read, after)

    def rejects(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredReject]:
        def read(queue: Queue, position: int) -> AsyncIterator[StoredReject]:
            return queue.rejects(run_id, step=step, after=position)

        return self._stored(run_id, read, after)

    async def _stored(
        self, run_id: str, read: Callable[[Queue, int], AsyncIterator[Stored]], after: int
    ) -> AsyncIterator[Stored]:
        """Merge results by their numbers, which include that of their server."""
        await self._find(run_id)
        streams = []
        for member in self._members:
            queue = await member.stream_from()
            position = max(0, (after - member.number) // MAX_SERVERS)
            streams.append(_numbered(if_known(read(queue, position)), member.number))
        async for _, stored in merge(streams, lambda one: one.id):
            yield stored

    async def dead(
        self,
        run_id: str,
        where: DeadFilter = DeadFilter(),
        *,
        ids: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[DeadLetter]:
        await self._find(run_id)
        cursors = split_cursor(after, len(self._members))
        queues = [await member.stream_from() for member in self._members]
        streams = [
            if_known(queue.dead(run_id, where, ids=ids, after=cursor))
            for queue, cursor in zip(queues, cursors, strict=True)
        ]
        async for number, letter in merge(streams, lambda one: one.buried_at):
            cursors[number] = letter.cursor
            if letter.task.step != OUTBOX_STEP:
                yield replace(letter, cursor=join_cursor(cursors))

    async def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        await self._find(run_id)
        async for row in self._in_turn(lambda queue, cursor: queue.expired(run_id, after=cursor), after):
            yield row

    async def tasks(
        self,
        run_id: str,
        *,
        step: str | None = None,
        states: Collection[TaskState] | None = None,
        keys: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[TaskStatus]:
        check_keys(keys, after)
        await self._find(run_id)

        def read(queue: Queue, cursor: str | None) -> AsyncIterator[TaskStatus]:
            return queue.tasks(run_id, step=step, states=states, keys=keys, after=cursor)

        async for row in self._in_turn(read, after):
            if row.step != OUTBOX_STEP:
                yield row

    async def hosts(
        self, run_id: str | None = None, *, after: str | None = None
    ) -> AsyncIterator[HostStatus]:
        await (self._deliveries.flush() if run_id is None else self._find(run_id))
        async for row in self._in_turn(lambda queue, cursor: queue.hosts(run_id, after=cursor), after):
            yield row

    async def _in_turn(
        self, read: Callable[[Queue, str | None], AsyncIterator[Listed]], after: str | None
    ) -> AsyncIterator[Listed]:
        """Stream a list of one server after the other."""
        first, cursor = place_of(after, self._members)
        for member in list(self._members)[first:]:
            async for row in if_known(read(await member.stream_from(), cursor)):
                yield replace(row, cursor=cursor_at(member.number, row.cursor))
            cursor = None

    async def entered(self, run_id: str, ids: Collection[str]) -> set[str]:
        await self._find(run_id)

        async def read(queue: Queue) -> set[str]:
            try:
                return await queue.entered(run_id, ids)
            except UnknownRun:
                return set()

        return set[str]().union(*await self._members.call_all(read))

    async def servers(self, run_id: str) -> Sequence[ServerStatus]:
        await self._find(run_id)
        read = self._runs.giving(run_id, lambda queue: queue.stats(run_id))
        found = (await self._members.call_reachable(dict.fromkeys(self._members, read))).given
        home = self._members.home
        return [
            ServerStatus(one.name, one is home, add_stats([found[one]]) if one in found else None)
            for one in self._members
        ]

    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        if run_id is not None:
            await self._find(run_id)

        async def read(queue: Queue) -> Sequence[WorkerStatus]:
            try:
                return await queue.workers(run_id)
            except UnknownRun:
                return ()

        found: dict[tuple[str, str], list[WorkerStatus]] = {}
        # Each server has the heartbeats of all workers.
        replies = await self._members.call_reachable(dict.fromkeys(self._members, read))
        for workers in replies.given.values():
            for worker in workers:
                found.setdefault((worker.run_id, worker.worker_id), []).append(worker)
        return [_add_workers(copies) for copies in found.values()]


async def _stats(run_id: str, queue: Queue) -> Stats:
    try:
        return await queue.stats(run_id)
    except UnknownRun:
        return Stats()


async def _size(queue: Queue) -> StoreSize:
    return await queue.size()


async def _numbered(stream: AsyncIterator[Stored], number: int) -> AsyncIterator[Stored]:
    async for stored in stream:
        yield replace(stored, id=stored.id * MAX_SERVERS + number)


def _add_workers(copies: Sequence[WorkerStatus]) -> WorkerStatus:
    """Return a worker as its newest heartbeat shows it, with what all servers counted."""
    return replace(
        min(copies, key=lambda one: one.last_beat),
        leased=sum(one.leased for one in copies),
        completed=sum(one.completed for one in copies),
        failed=sum(one.failed for one in copies),
        items=sum(one.items for one in copies),
    )
