"""Lists tasks in their present state: shard by shard, state by state, page by page."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from shoal.core.model import TaskState, TaskStatus
from shoal.queue.encoding import moment
from shoal.queue.paging import cursor_of, invalid_cursor, numbers_of, page_sizes, parts_of
from shoal.queue.redis.dead_letters import DeadLetterReader
from shoal.queue.redis.records import (
    ELEMENT_HEAD,
    BodyRecord,
    Element,
    Stored,
    key_of,
    read_body,
    read_element,
    read_lease,
    status_of,
)
from shoal.queue.redis.reports import StepGroupNames
from shoal.queue.redis.server import RedisServer
from shoal.queue.redis.shards import shard_of_id

PAGE = 500
START = -1  # the position before a host queue
NO_ID = "0" * 32

# The start of the list of each state, which has the parts of its cursors; in the order in which tasks pass
# through the states, so that few are missed.
FIRST: dict[TaskState, tuple[Any, ...]] = {
    TaskState.PENDING: (0, 0, -1, NO_ID),  # host, host queue, position in the host queue, task
    TaskState.DELAYED: (0, NO_ID),  # when it is due, task
    TaskState.LEASED: ("",),  # task
    TaskState.DEAD: (0,),  # order of burial
    TaskState.EXPIRED: (0,),  # position
    TaskState.DROPPED: (0,),  # position
    TaskState.COMPLETED: (0, -1),  # order of what its call stored first, position among the call's tasks
}
_ID = re.compile(r"[0-9a-f]{32}")

Position = tuple[Any, ...]
Command = Callable[..., Awaitable[Any]]
Positioned = AsyncIterator[tuple[Position, TaskStatus]]


class RedisCursor(NamedTuple):
    """The cursor of a task: its shard, its state, and its position in the list of that state."""

    shard: int
    state: TaskState
    position: Position

    @classmethod
    def read(cls, after: str) -> "RedisCursor":
        """Parse a cursor; raises InvalidSetting."""
        shard, name, *_ = (*after.split("."), "", "")[:2]
        if name not in FIRST:
            raise invalid_cursor(after)
        first = FIRST[TaskState(name)]
        parts = parts_of(after, 2 + len(first))[2:]
        has_id = isinstance(first[-1], str)
        numbers = numbers_of(after, [shard, *(parts[:-1] if has_id else parts)])
        if has_id and not _ID.fullmatch(parts[-1]):
            raise invalid_cursor(after)
        return cls(numbers[0], TaskState(name), (*numbers[1:], *parts[-1:]) if has_id else tuple(numbers[1:]))


class ResultBatch(NamedTuple):
    """The items, or the rejects, that one settle call stored."""

    order: int
    at: int
    are_items: bool
    stored: Sequence[Stored]


class RedisTaskList(DeadLetterReader):
    """The tasks of one run."""

    def __init__(
        self, server: RedisServer, shards: int, number: int, ids: Collection[bytes] | None = None
    ) -> None:
        super().__init__(server, shards)
        self._number, self._ids = number, ids

    async def tasks(
        self, step: str | None, states: Collection[TaskState] | None, after: str | None = None
    ) -> AsyncIterator[TaskStatus]:
        """Stream the tasks of a step in these states after a cursor; raises InvalidSetting."""
        begin = None if after is None else RedisCursor.read(after)
        lists = [
            (shard, state)
            for shard in range(self._shards)
            for state in FIRST
            if states is None or state in states
        ]
        if begin is not None:
            if begin[:2] not in lists:
                raise invalid_cursor(after or "")
            lists = lists[lists.index(begin[:2]) :]
        for shard, state in lists:
            start = begin.position if begin and begin[:2] == (shard, state) else FIRST[state]
            async for at, status in self._list(shard, state, start):
                if step in (None, status.step):
                    yield replace(status, cursor=cursor_of(shard, state, *at))

    async def named(
        self, ids: Mapping[bytes, str], states: Collection[TaskState] | None, has_unlisted: bool
    ) -> AsyncIterator[TaskStatus]:
        """Stream the tasks with these ids, each of a step.

        A task that entered and is in no list is completed, unless the run has tasks that cannot be listed.
        """
        missing = {one.hex(): (one, step) for one, step in ids.items()}
        wanted = set(missing)
        async for status in self.tasks(None, None):
            if status.id in wanted:
                missing.pop(status.id, None)
                if states is None or status.state in states:
                    yield status
        if not has_unlisted and (states is None or TaskState.COMPLETED in states):
            seen = await self.entered([one for one, _ in missing.values()])
            for one, step in [pair for pair in missing.values() if pair[0].hex() in seen]:
                yield TaskStatus(id=one.hex(), step=step, state=TaskState.COMPLETED, items=0)

    def _list(self, shard: int, state: TaskState, position: Position) -> Positioned:
        match state:
            case TaskState.PENDING:
                return self._pending(shard, position)
            case TaskState.DELAYED:
                return self._delayed(shard, position)
            case TaskState.LEASED:
                return self._leased(shard, position)
            case TaskState.DEAD:
                return self._dead(shard, position)
            case TaskState.EXPIRED | TaskState.DROPPED:
                return self._listed(shard, state, position)
            case TaskState.COMPLETED:
                return self._completed(shard, position)

    async def _pending(self, shard: int, position: Position) -> Positioned:
        """Stream the tasks in host queues, in the order of claims."""
        names = StepGroupNames(self, shard, self._number)
        first_host, first_host_queue, at, last = position
        async for host, host_queue, host_name in self._host_queues(shard, first_host):
            if (host, host_queue) < (first_host, first_host_queue):
                continue
            is_first = (host, host_queue) == (first_host, first_host_queue)
            begin = (at, bytes.fromhex(last)) if is_first else (START, b"")
            key = f"{self._number}:q:{host_queue // 10}:{host_queue % 10}:{host_name}"
            async for page in HostQueueReader(self.command, shard, key).after(*begin):
                async for index, row in self._rows(shard, page):
                    step_group = await names.of(host_queue // 10)
                    status = status_of(row, TaskState.PENDING, step_group, host_queue % 10, host_name)
                    yield (host, host_queue, index, status.id), status

    async def _host_queues(self, shard: int, start: int) -> AsyncIterator[tuple[int, int, str]]:
        """Stream the host queues that hold tasks: the host's position, their number, and the host."""
        for size in page_sizes(PAGE):
            count, host_queues = await self._server.call("task_host_queues", shard, self._number, start, size)
            for position, step_group, priority, host in host_queues:
                yield position, step_group * 10 + priority, host.decode()
            start += count
            if count < size:
                return

    async def _rows(
        self, shard: int, page: Sequence[tuple[int, bytes]]
    ) -> AsyncIterator[tuple[int, Element | BodyRecord]]:
        """Decode elements; of a task that may expire, a host queue holds only its id."""
        selected = [(position, one) for position, one in page if self._is_selected(id_of(one))]
        heads = [id_of(one) for _, one in selected if len(one) == ELEMENT_HEAD]
        bodies = dict(zip(heads, await self._fields(shard, "bodies", heads), strict=True))
        for position, one in selected:
            if len(one) > ELEMENT_HEAD:
                yield position, read_element(one)
            elif (body := bodies[id_of(one)]) is not None:  # else it has expired, and a claim will remove it
                yield position, read_body(body)

    async def _delayed(self, shard: int, position: Position) -> Positioned:
        names = StepGroupNames(self, shard, self._number)
        async for page in self._ranked(shard, "delayed", position[0], bytes.fromhex(position[1])):
            selected = [(due, one) for due, one in page if self._is_selected(one)]
            bodies = await self._fields(shard, "bodies", [one for _, one in selected])
            for (due, one), body in zip(selected, bodies, strict=True):
                if body is not None:
                    row = read_body(body)
                    where = await names.of(row.step_group), row.priority, row.host
                    yield (due, one.hex()), status_of(row, TaskState.DELAYED, *where)

    async def _ranked(
        self, shard: int, name: str, score: int, member: bytes
    ) -> AsyncIterator[list[tuple[int, bytes]]]:
        """Read a sorted set after a score and a member; members removed meanwhile shift nothing."""
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

    async def _leased(self, shard: int, position: Position) -> Positioned:
        """Stream the leases in the order of task ids: there are few, and all of their ids are read."""
        names, after = StepGroupNames(self, shard, self._number), bytes.fromhex(position[0])
        ids = await self.command(shard, "HKEYS", f"{self._number}:leases")
        selected = sorted(one for one in ids if one > after and self._is_selected(one))
        sizes = page_sizes(PAGE)
        while some := selected[: next(sizes)]:
            selected = selected[len(some) :]
            for lease in await self._fields(shard, "leases", some):
                if lease is not None:
                    row = read_lease(lease)
                    status = status_of(
                        row,
                        TaskState.LEASED,
                        await names.of(row.step_group),
                        row.priority,
                        row.host,
                        attempt=row.attempts + 1,
                        worker=row.worker,
                        since=row.start,
                    )
                    yield (status.id,), status

    async def _dead(self, shard: int, position: Position) -> Positioned:
        async for (order, _), letter in self.dead_letters(shard, self._number, position[0]):
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

    async def _listed(self, shard: int, state: TaskState, position: Position) -> Positioned:
        names = StepGroupNames(self, shard, self._number)
        async for index, row in self.listed(shard, self._number, str(state), position[0]):
            where = await names.of(row.step_group), row.priority, row.host
            yield (index,), status_of(row, state, *where, attempt=0, since=row.at)

    async def _completed(self, shard: int, position: Position) -> Positioned:
        """Stream the tasks that stored something; of others only the seen key is left."""
        first, passed = position
        streams = [self._entries(shard, name, first) for name in ("items", "rejects")]
        of_call: dict[bytes, TaskStatus] = {}
        begin = at = 0
        async for entry in self._merged(streams, lambda entry: entry.order):
            if entry.at != at:  # the results of a call are adjacent, items first
                for index, status in enumerate(of_call.values()):
                    if (begin, index) > (first, passed):
                        yield (begin, index), status
                of_call, begin, at = {}, entry.order, entry.at
            for one in entry.stored:
                of_call.setdefault(one.task, _completed(one, entry))
        for index, status in enumerate(of_call.values()):
            if (begin, index) > (first, passed):
                yield (begin, index), status

    async def _entries(self, shard: int, name: str, first: int) -> AsyncIterator[ResultBatch]:
        async for order, at, stored in self.entries(shard, f"{self._number}:{name}", str(first)):
            yield ResultBatch(order, at, name == "items", stored)

    async def _fields(self, shard: int, name: str, ids: Sequence[bytes]) -> list[bytes | None]:
        if not ids:
            return []
        found: list[bytes | None] = await self.command(shard, "HMGET", f"{self._number}:{name}", *ids)
        return found

    def _is_selected(self, one: bytes) -> bool:
        return self._ids is None or one in self._ids

    async def entered(self, ids: Sequence[bytes]) -> set[str]:
        """Return the subset of these ids whose tasks have entered the run."""
        by_shard: dict[int, list[bytes]] = {}
        for one in ids:
            by_shard.setdefault(shard_of_id(one, self._shards), []).append(one)
        found: set[str] = set()
        for shard, mine in by_shard.items():
            for start in range(0, len(mine), PAGE):
                some = mine[start : start + PAGE]
                words = [word for one in some for word in (one, key_of(one))]
                numbers = await self._server.call("seen_tasks", shard, self._number, *words)
                found |= {some[int(number) - 1].hex() for number in numbers}
        return found


def _completed(one: Stored, entry: ResultBatch) -> TaskStatus:
    return TaskStatus(
        id=one.task.hex(),
        step=one.step,
        state=TaskState.COMPLETED,
        url=one.url,
        since=moment(entry.at),
        items=len(one.data) if entry.are_items else 0,
    )


def id_of(element: bytes) -> bytes:
    """Return the task id of an element, whole or only its head."""
    return element[2:ELEMENT_HEAD]


class HostQueueReader:
    """Reads a host queue from its front, where claims remove tasks; new tasks are added at its end."""

    def __init__(self, command: Command, shard: int, name: str) -> None:
        self._command, self._shard, self._name = command, shard, name

    async def after(self, at: int, last: bytes) -> AsyncIterator[list[tuple[int, bytes]]]:
        """Yield the elements after the one that was at `at`, with their positions, page by page.

        Elements leave at the front only. So if that one is gone, all before it are gone too, and every
        element in the list comes after it.
        """
        sizes = page_sizes(PAGE)
        while True:
            first = max(at, 0)
            elements = await self._range(first, first + next(sizes))
            if at != START:
                if not elements or id_of(elements[0]) != last:
                    at = await self._find(at, last)
                    continue
                elements, first = elements[1:], first + 1
            if not elements:
                return
            yield list(enumerate(elements, first))
            at, last = first + len(elements) - 1, id_of(elements[-1])

    async def _find(self, at: int, last: bytes) -> int:
        """Return the position now of the element that was at `at`, START if it was removed."""
        while at > 0:
            first = max(0, at - PAGE)
            elements = await self._range(first, at - 1)
            for position in reversed(range(len(elements))):
                if id_of(elements[position]) == last:
                    return first + position
            at = first
        return START

    async def _range(self, first: int, final: int) -> list[bytes]:
        found: list[bytes] = await self._command(self._shard, "LRANGE", self._name, first, final)
        return found
