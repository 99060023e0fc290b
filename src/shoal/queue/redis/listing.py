"""Tasks as they are now: shard by shard, state by state, page by page."""

import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from shoal.core.model import TaskState, TaskStatus
from shoal.queue.places import no_place, numbers_of, page_sizes, parts_of, place_of
from shoal.queue.redis.lanes import NOWHERE, Lane, id_of
from shoal.queue.redis.reading import Reader, SectionNames
from shoal.queue.redis.server import Server
from shoal.queue.redis.wire import (
    ELEMENT_HEAD,
    BodyRow,
    Element,
    Stored,
    key_of,
    moment,
    read_body,
    read_element,
    read_lease,
    status_of,
)

PAGE = 500
NO_ID = "0" * 32

# What a place is made of in each state, and where its list begins; in the order in which tasks go through the
# states, so that few pass by unseen.
FIRST: dict[TaskState, tuple[Any, ...]] = {
    TaskState.PENDING: (0, 0, -1, NO_ID),  # host, lane, position in the lane, task
    TaskState.DELAYED: (0, NO_ID),  # when it is due, task
    TaskState.LEASED: ("",),  # task
    TaskState.DEAD: (0,),  # order of burial
    TaskState.EXPIRED: (0,),  # position
    TaskState.DROPPED: (0,),  # position
    TaskState.COMPLETED: (0, -1),  # order of what its call stored first, position among the call's tasks
}
_ID = re.compile(r"[0-9a-f]{32}")

Mark = tuple[Any, ...]
Marked = AsyncIterator[tuple[Mark, TaskStatus]]


class Spot(NamedTuple):
    """A task's place: its shard, its state, and its mark in the list of that state."""

    shard: int
    state: TaskState
    mark: Mark

    @classmethod
    def read(cls, after: str) -> "Spot":
        """Read a place; raises InvalidSetting."""
        shard, name, *_ = (*after.split("."), "", "")[:2]
        if name not in FIRST:
            raise no_place(after)
        first = FIRST[TaskState(name)]
        parts = parts_of(after, 2 + len(first))[2:]
        has_id = isinstance(first[-1], str)
        numbers = numbers_of(after, [shard, *(parts[:-1] if has_id else parts)])
        if has_id and not _ID.fullmatch(parts[-1]):
            raise no_place(after)
        return cls(numbers[0], TaskState(name), (*numbers[1:], *parts[-1:]) if has_id else tuple(numbers[1:]))


class Entry(NamedTuple):
    """What one settle call stored: items, or rejects."""

    order: int
    at: int
    are_items: bool
    stored: Sequence[Stored]


class Listing(Reader):
    """The tasks of one run."""

    def __init__(
        self, server: Server, shards: int, number: int, ids: Collection[bytes] | None = None
    ) -> None:
        super().__init__(server, shards)
        self._number, self._ids = number, ids

    async def tasks(
        self, step: str | None, states: Collection[TaskState] | None, after: str | None = None
    ) -> AsyncIterator[TaskStatus]:
        """Stream the tasks of a step in these states behind a place; raises InvalidSetting."""
        begin = None if after is None else Spot.read(after)
        walk = [
            (shard, state)
            for shard in range(self._shards)
            for state in FIRST
            if states is None or state in states
        ]
        if begin is not None:
            if begin[:2] not in walk:
                raise no_place(after or "")
            walk = walk[walk.index(begin[:2]) :]
        for shard, state in walk:
            mark = begin.mark if begin and begin[:2] == (shard, state) else FIRST[state]
            async for at, status in self._of(shard, state, mark):
                if step in (None, status.step):
                    yield replace(status, place=place_of(shard, state, *at))

    async def named(
        self, ids: Mapping[bytes, str], states: Collection[TaskState] | None, afloat: bool
    ) -> AsyncIterator[TaskStatus]:
        """Stream the tasks with these ids, each of a step.

        One that has entered and is nowhere is completed, unless tasks are out of sight.
        """
        unmet = {one.hex(): (one, step) for one, step in ids.items()}
        wanted = set(unmet)
        async for status in self.tasks(None, None):
            if status.id in wanted:
                unmet.pop(status.id, None)
                if states is None or status.state in states:
                    yield status
        if not afloat and (states is None or TaskState.COMPLETED in states):
            seen = await self.entered([one for one, _ in unmet.values()])
            for one, step in [pair for pair in unmet.values() if pair[0].hex() in seen]:
                yield TaskStatus(id=one.hex(), step=step, state=TaskState.COMPLETED, items=0)

    def _of(self, shard: int, state: TaskState, mark: Mark) -> Marked:
        match state:
            case TaskState.PENDING:
                return self._pending(shard, mark)
            case TaskState.DELAYED:
                return self._delayed(shard, mark)
            case TaskState.LEASED:
                return self._leased(shard, mark)
            case TaskState.DEAD:
                return self._dead(shard, mark)
            case TaskState.EXPIRED | TaskState.DROPPED:
                return self._listed(shard, state, mark)
            case TaskState.COMPLETED:
                return self._completed(shard, mark)

    async def _pending(self, shard: int, mark: Mark) -> Marked:
        """Stream what is in lanes, as claims would take it."""
        names = SectionNames(self, shard, self._number)
        first_host, first_lane, at, last = mark
        async for host, lane, where in self._lanes(shard, first_host):
            if (host, lane) < (first_host, first_lane):
                continue
            is_first = (host, lane) == (first_host, first_lane)
            begin = (at, bytes.fromhex(last)) if is_first else (NOWHERE, b"")
            key = f"{self._number}:q:{lane // 10}:{lane % 10}:{where}"
            async for page in Lane(self.command, shard, key).behind(*begin):
                async for position, row in self._rows(shard, page):
                    status = status_of(row, TaskState.PENDING, await names.of(lane // 10), lane % 10, where)
                    yield (host, lane, position, status.id), status

    async def _lanes(self, shard: int, start: int) -> AsyncIterator[tuple[int, int, str]]:
        """Stream the lanes that hold tasks: the host's position, the lane's number, and the host."""
        for size in page_sizes(PAGE):
            count, lanes = await self._server.call("task_lanes", shard, self._number, start, size)
            for position, section, priority, host in lanes:
                yield position, section * 10 + priority, host.decode()
            start += count
            if count < size:
                return

    async def _rows(
        self, shard: int, page: Sequence[tuple[int, bytes]]
    ) -> AsyncIterator[tuple[int, Element | BodyRow]]:
        """Read elements; of a task that may expire, a lane holds no more than its id."""
        meant = [(position, one) for position, one in page if self._is_meant(id_of(one))]
        heads = [id_of(one) for _, one in meant if len(one) == ELEMENT_HEAD]
        bodies = dict(zip(heads, await self._fields(shard, "bodies", heads), strict=True))
        for position, one in meant:
            if len(one) > ELEMENT_HEAD:
                yield position, read_element(one)
            elif (body := bodies[id_of(one)]) is not None:  # else it has expired, and a claim will drop it
                yield position, read_body(body)

    async def _delayed(self, shard: int, mark: Mark) -> Marked:
        names = SectionNames(self, shard, self._number)
        async for page in self._ranked(shard, "delayed", mark[0], bytes.fromhex(mark[1])):
            meant = [(due, one) for due, one in page if self._is_meant(one)]
            bodies = await self._fields(shard, "bodies", [one for _, one in meant])
            for (due, one), body in zip(meant, bodies, strict=True):
                if body is not None:
                    row = read_body(body)
                    where = await names.of(row.section), row.priority, row.host
                    yield (due, one.hex()), status_of(row, TaskState.DELAYED, *where)

    async def _ranked(
        self, shard: int, name: str, score: int, member: bytes
    ) -> AsyncIterator[list[tuple[int, bytes]]]:
        """Read a sorted set behind a score and a member; what has left it meanwhile moves nothing."""
        sizes, skipped = page_sizes(PAGE), 0
        while found := await self.command(
            *(shard, "ZRANGEBYSCORE", f"{self._number}:{name}", score, "+inf"),
            *("WITHSCORES", "LIMIT", skipped, next(sizes)),
        ):
            pairs = list(zip(map(int, found[1::2]), found[::2], strict=True))
            fresh = [pair for pair in pairs if pair > (score, member)]
            skipped = 0 if fresh else skipped + len(pairs)
            if fresh:
                yield fresh
                score, member = fresh[-1]

    async def _leased(self, shard: int, mark: Mark) -> Marked:
        """Stream the leases by task: there are few, and all of their ids are read."""
        names, after = SectionNames(self, shard, self._number), bytes.fromhex(mark[0])
        ids = await self.command(shard, "HKEYS", f"{self._number}:leases")
        meant = sorted(one for one in ids if one > after and self._is_meant(one))
        sizes = page_sizes(PAGE)
        while some := meant[: next(sizes)]:
            meant = meant[len(some) :]
            for lease in await self._fields(shard, "leases", some):
                if lease is not None:
                    row = read_lease(lease)
                    status = status_of(
                        row,
                        TaskState.LEASED,
                        await names.of(row.section),
                        row.priority,
                        row.host,
                        attempt=row.attempts + 1,
                        worker=row.worker,
                        since=row.start,
                    )
                    yield (status.id,), status

    async def _dead(self, shard: int, mark: Mark) -> Marked:
        async for (order, _), letter in self._graves(shard, self._number, mark[0]):
            status = TaskStatus(
                id=letter.id,
                step=letter.task.step,
                state=TaskState.DEAD,
                url=letter.task.url,
                task=letter.task,
                since=letter.buried_at,
                attempt=letter.attempts,
            )
            yield (order,), status

    async def _listed(self, shard: int, state: TaskState, mark: Mark) -> Marked:
        names = SectionNames(self, shard, self._number)
        async for place, row in self.listed(shard, self._number, str(state), mark[0]):
            where = await names.of(row.section), row.priority, row.host
            yield (place,), status_of(row, state, *where, attempt=0, since=row.at)

    async def _completed(self, shard: int, mark: Mark) -> Marked:
        """Stream the tasks that yielded something; of others no more is kept than that their key was seen."""
        first, passed = mark
        streams = [self._entries(shard, name, first) for name in ("items", "rejects")]
        of_call: dict[bytes, TaskStatus] = {}
        begin = at = 0
        async for entry in self._merged(streams, lambda entry: entry.order):
            if entry.at != at:  # what a call stored stands side by side, items first
                for place, status in enumerate(of_call.values()):
                    if (begin, place) > (first, passed):
                        yield (begin, place), status
                of_call, begin, at = {}, entry.order, entry.at
            for one in entry.stored:
                of_call.setdefault(one.task, _completed(one, entry))
        for place, status in enumerate(of_call.values()):
            if (begin, place) > (first, passed):
                yield (begin, place), status

    async def _entries(self, shard: int, name: str, first: int) -> AsyncIterator[Entry]:
        async for order, at, stored in self.entries(shard, f"{self._number}:{name}", str(first)):
            yield Entry(order, at, name == "items", stored)

    async def _fields(self, shard: int, name: str, ids: Sequence[bytes]) -> list[bytes | None]:
        if not ids:
            return []
        found: list[bytes | None] = await self.command(shard, "HMGET", f"{self._number}:{name}", *ids)
        return found

    def _is_meant(self, one: bytes) -> bool:
        return self._ids is None or one in self._ids

    async def entered(self, ids: Sequence[bytes]) -> set[str]:
        """Return the ids among these that are of tasks which have entered the run."""
        by_shard: dict[int, list[bytes]] = {}
        for one in ids:
            by_shard.setdefault(int.from_bytes(one[:4], "big") % self._shards, []).append(one)
        found: set[str] = set()
        for shard, mine in by_shard.items():
            for start in range(0, len(mine), PAGE):
                some = mine[start : start + PAGE]
                words = [word for one in some for word in (one, key_of(one))]
                places = await self._server.call("seen_tasks", shard, self._number, *words)
                found |= {some[int(place) - 1].hex() for place in places}
        return found


def _completed(one: Stored, entry: Entry) -> TaskStatus:
    return TaskStatus(
        id=one.task.hex(),
        step=one.step,
        state=TaskState.COMPLETED,
        url=one.url,
        since=moment(entry.at),
        items=len(one.data) if entry.are_items else 0,
    )
