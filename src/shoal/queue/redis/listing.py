"""Tasks as they are now: shard by shard, state by state, page by page."""

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from shoal.core.model import TaskState, TaskStatus
from shoal.queue.redis.reading import PAGE, Reader
from shoal.queue.redis.server import Server
from shoal.queue.redis.wire import (
    ELEMENT_HEAD,
    Stored,
    key_of,
    moment,
    read_body,
    read_element,
    read_lease,
    read_letter,
    status_of,
)

Statuses = AsyncIterator[TaskStatus]


class Entry(NamedTuple):
    """What one settle call stored: items, or rejects."""

    order: int
    at: int
    are_items: bool
    stored: Sequence[Stored]


class Listing(Reader):
    """The tasks of one run.

    States come in the order in which tasks go through them, so that few pass by unseen meanwhile.
    """

    def __init__(
        self, server: Server, shards: int, number: int, ids: Collection[bytes] | None = None
    ) -> None:
        super().__init__(server, shards)
        self._number, self._ids = number, ids

    async def tasks(self, step: str | None, states: Collection[TaskState] | None) -> Statuses:
        """Stream the tasks of a step in these states."""
        for shard in range(self._shards):
            for stream in self._streams(shard, states):
                async for status in stream:
                    if step in (None, status.step) and (states is None or status.state in states):
                        yield status

    async def named(
        self, ids: Mapping[bytes, str], states: Collection[TaskState] | None, afloat: bool
    ) -> Statuses:
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
            for one, step in [pair for pair in unmet.values() if await self._has_entered(pair[0])]:
                yield TaskStatus(id=one.hex(), step=step, state=TaskState.COMPLETED, items=0)

    def _streams(self, shard: int, states: Collection[TaskState] | None) -> Iterator[Statuses]:
        def meant(*some: TaskState) -> bool:
            return states is None or any(state in states for state in some)

        if meant(TaskState.PENDING):
            yield self._pending(shard)
        if meant(TaskState.PENDING, TaskState.DELAYED):
            yield self._bodies(shard)
        if meant(TaskState.LEASED):
            yield self._leased(shard)
        if meant(TaskState.DEAD):
            yield self._dead(shard)
        for state in (TaskState.EXPIRED, TaskState.DROPPED):
            if meant(state):
                yield self._listed(shard, state)
        if meant(TaskState.COMPLETED):
            yield self._completed(shard)

    async def _pending(self, shard: int) -> Statuses:
        """Stream what is in lanes; of a task that may expire, they hold no more than its id."""
        start, count = 0, PAGE
        while count == PAGE:
            count, lanes = await self._server.call("task_lanes", shard, self._number, start, PAGE)
            for section, priority, host in lanes:
                names = await self._names(shard, self._number)
                async for element in self._lane(shard, f"q:{section}:{priority}:{host.decode()}"):
                    row = read_element(element)
                    yield status_of(row, TaskState.PENDING, names[section], priority, host.decode())
            start += count

    async def _lane(self, shard: int, name: str) -> AsyncIterator[bytes]:
        """Read a lane from its end: claims take from the front, and would move what is still to be read."""
        end = -1
        while rows := await self._command(shard, "LRANGE", f"{self._number}:{name}", end - PAGE + 1, end):
            for element in rows:
                if len(element) > ELEMENT_HEAD and self._is_meant(element[2:ELEMENT_HEAD]):
                    yield element
            end -= PAGE

    async def _bodies(self, shard: int) -> Statuses:
        async for page in self._scanned(shard, "bodies"):
            names = await self._names(shard, self._number)
            dues = await self._command(shard, "ZMSCORE", f"{self._number}:delayed", *page)
            for body, due in zip(page.values(), dues, strict=True):
                row = read_body(body)
                state = TaskState.PENDING if due is None else TaskState.DELAYED
                yield status_of(row, state, names[row.section], row.priority, row.host)

    async def _leased(self, shard: int) -> Statuses:
        async for page in self._scanned(shard, "leases"):
            names = await self._names(shard, self._number)
            for row in map(read_lease, page.values()):
                yield status_of(
                    row,
                    TaskState.LEASED,
                    names[row.section],
                    row.priority,
                    row.host,
                    attempt=row.attempts + 1,
                    worker=row.worker,
                    since=row.start,
                )

    async def _dead(self, shard: int) -> Statuses:
        async for _, letter in self._graves(shard, self._number):
            yield TaskStatus(
                id=letter.id,
                step=letter.task.step,
                state=TaskState.DEAD,
                url=letter.task.url,
                task=letter.task,
                since=letter.buried_at,
                attempt=letter.attempts,
            )

    async def _listed(self, shard: int, state: TaskState) -> Statuses:
        start = 0
        while rows := await self._command(
            shard, "LRANGE", f"{self._number}:{state}", start, start + PAGE - 1
        ):
            names = await self._names(shard, self._number)
            for row in map(read_letter, rows):
                yield status_of(
                    row, state, names[row.section], row.priority, row.host, attempt=0, since=row.at
                )
            start += len(rows)

    async def _completed(self, shard: int) -> Statuses:
        """Stream the tasks that yielded something; of others no more is kept than that their key was seen."""
        streams = [self._entries(shard, "items"), self._entries(shard, "rejects")]
        of_call: dict[bytes, TaskStatus] = {}
        at = 0
        async for entry in self._merged(streams, lambda entry: entry.order):
            if entry.at != at:  # what a call stored stands side by side, items first
                for status in of_call.values():
                    yield status
                of_call, at = {}, entry.at
            for one in entry.stored:
                of_call.setdefault(one.task, _completed(one, entry))
        for status in of_call.values():
            yield status

    async def _entries(self, shard: int, name: str) -> AsyncIterator[Entry]:
        async for first, at, stored in self._stored(shard, f"{self._number}:{name}", 0):
            yield Entry(first, at, name == "items", stored)

    async def _scanned(self, shard: int, name: str) -> AsyncIterator[dict[bytes, bytes]]:
        cursor, last = 0, False
        while not last:
            cursor, page = await self._command(
                shard, "HSCAN", f"{self._number}:{name}", cursor, "COUNT", PAGE
            )
            if meant := {one: value for one, value in page.items() if self._is_meant(one)}:
                yield meant
            last = not int(cursor)

    def _is_meant(self, one: bytes) -> bool:
        return self._ids is None or one in self._ids

    async def _has_entered(self, one: bytes) -> bool:
        shard = int.from_bytes(one[:4], "big") % self._shards
        return bool(await self._server.call("seen_tasks", shard, self._number, one, key_of(one)))


def _completed(one: Stored, entry: Entry) -> TaskStatus:
    return TaskStatus(
        id=one.task.hex(),
        step=one.step,
        state=TaskState.COMPLETED,
        url=one.url,
        since=moment(entry.at),
        items=len(one.data) if entry.are_items else 0,
    )
