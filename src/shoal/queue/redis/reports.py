"""Lists that are read page by page: items, rejects, expired tasks, hosts and workers; and counts."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from shoal.core.model import ExpiredTask, HostStatus, Stats, StoredItem, StoredReject, WorkerStatus
from shoal.queue.encoding import counts_from, duration, moment, stats_from
from shoal.queue.intake import decode
from shoal.queue.paging import cursor_of, merge, numbers_of, page_sizes, parts_of
from shoal.queue.redis.records import (
    LetterRecord,
    Stored,
    expired_task,
    numbers,
    read_letter,
    read_stored,
    unpack,
)
from shoal.queue.redis.server import RedisServer

PAGE = 500
ENTRIES = 25  # settle calls in a page of items
Row = TypeVar("Row")
Names = Mapping[int, list[str]]


class RedisReader:
    """Reads one run, or all runs where none is given."""

    def __init__(self, server: RedisServer, shards: int) -> None:
        self._server, self._shards = server, shards
        self.shards = shards

    async def items(self, number: int, step: str | None, after: int) -> AsyncIterator[StoredItem]:
        """Stream the items of a run."""
        async for fields in self._all_results(number, "items", step, after):
            yield StoredItem(**fields)

    async def rejects(self, number: int, step: str | None, after: int) -> AsyncIterator[StoredReject]:
        """Stream the rejects of a run."""
        async for fields in self._all_results(number, "rejects", step, after):
            yield StoredReject(**fields)

    def _all_results(
        self, number: int, name: str, step: str | None, after: int
    ) -> AsyncIterator[dict[str, Any]]:
        streams = [self._results(shard, number, name, step, after) for shard in range(self._shards)]
        return self._merged(streams, itemgetter("id"))

    async def expired(self, number: int, after: str | None) -> AsyncIterator[ExpiredTask]:
        """Stream the expired tasks of a run."""
        home, start = pair_of(after)
        for shard in range(home, self._shards):
            names = StepGroupNames(self, shard, number)
            async for position, row in self.listed(shard, number, "expired", start):
                yield expired_task(row, await names.of(row.step_group), cursor_of(shard, position))
            start = 0

    async def listed(
        self, shard: int, number: int, name: str, start: int
    ) -> AsyncIterator[tuple[int, LetterRecord]]:
        """Read a list of a run that only grows, with the positions of its rows, counted from 1."""
        sizes = page_sizes(PAGE)
        while rows := await self.command(shard, "LRANGE", f"{number}:{name}", start, start + next(sizes) - 1):
            for row in rows:
                start += 1
                yield start, read_letter(row)

    async def hosts(self, number: int | None, after: str | None) -> AsyncIterator[HostStatus]:
        """Stream the hosts, of one run or of all, in the order in which they were first seen."""
        home, start = pair_of(after)
        for shard in range(home, self._shards):
            async for position, row in self._hosts(shard, number, start):
                name, delay, paused_for, *counters = row
                yield HostStatus(
                    host=name,
                    counts=counts_from(pair for row in counters for pair in enumerate(row)),
                    delay=duration(delay) if delay else None,
                    paused_for=duration(paused_for) if paused_for > 0 else None,
                    cursor=cursor_of(shard, position),
                )
            start = 0

    async def _hosts(self, shard: int, number: int | None, start: int) -> AsyncIterator[tuple[int, Any]]:
        run, sizes = "" if number is None else number, page_sizes(PAGE)
        while rows := unpack(await self._server.call("hosts", shard, run, start, next(sizes))):
            for row in rows:
                start += 1
                yield start, row

    async def workers(self, number: int, run_id: str, now: int) -> list[WorkerStatus]:
        """Return the workers of a run that have sent a heartbeat."""
        beats: dict[str, tuple[int, str, str]] = {}
        done: dict[str, list[int]] = {}
        for shard in range(self._shards):
            async for worker, packed in self._pairs(shard, f"{number}:beats"):
                beats[worker] = unpack(packed, type=tuple[int, str, str])
            async for worker, packed in self._pairs(shard, f"{number}:workers"):
                row = done.get(worker, [0, 0, 0, 0])
                done[worker] = [one + other for one, other in zip(row, numbers(packed), strict=True)]
        return [
            _worker(worker, run_id, beat, done.get(worker, [0, 0, 0, 0]), now)
            for worker, beat in beats.items()
        ]

    async def _results(
        self, shard: int, number: int, name: str, step: str | None, after: int
    ) -> AsyncIterator[dict[str, Any]]:
        """Stream the fields of the items or rejects of a shard."""
        width = 1 if name == "items" else 2  # texts of each result
        async for first, at, stored in self._stored(shard, f"{number}:{name}", after):
            for position, one, (data, *reason) in _each(first, stored, width):
                result_id = position * self._shards + shard
                if result_id > after and step in (None, one.step):
                    yield {
                        "id": result_id,
                        "task_id": one.task.hex(),
                        "url": one.url,
                        "step": one.step,
                        "data": decode(data),
                        "stored_at": moment(at),
                        **({"reason": reason[0]} if reason else {}),
                    }

    async def _stored(
        self, shard: int, name: str, after: int
    ) -> AsyncIterator[tuple[int, int, list[Stored]]]:
        """Read the results of settle calls, from the one that contains `after`."""
        start = "-"
        if after > 0:
            held = await self.command(shard, "XREVRANGE", name, after // self._shards + 1, "-", "COUNT", 1)
            start = held[0][0].decode() if held else "-"
        async for entry in self.entries(shard, name, start):
            yield entry

    async def entries(
        self, shard: int, name: str, start: str
    ) -> AsyncIterator[tuple[int, int, list[Stored]]]:
        """Read the results of settle calls, from `start`: order, time and results."""
        while entries := await self.command(shard, "XRANGE", name, start, "+", "COUNT", ENTRIES):
            for key, fields in entries:
                first = int(key.partition(b"-")[0])
                yield first, int(fields[b"t"]), read_stored(fields[b"b"])
                start = f"({key.decode()}"

    async def _pairs(self, shard: int, name: str) -> AsyncIterator[tuple[str, bytes]]:
        cursor = 0
        while True:
            cursor, page = await self.command(shard, "HSCAN", name, cursor, "COUNT", PAGE)
            for field, value in page.items():
                yield field.decode(), value
            if not int(cursor):
                return

    async def names(self, shard: int, number: int) -> Names:
        """Return the step and the partition of each step group."""
        found = await self.command(shard, "HGETALL", f"{number}:names")
        return {int(step_group): name.decode().split("\0") for step_group, name in found.items()}

    async def command(self, shard: int, command: str, name: str, *words: Any) -> Any:
        """Run a command on a key of a shard."""
        return await self._server.command(command, self._server.key(shard, name), *words)

    async def _merged(
        self, streams: list[AsyncIterator[Row]], order: Callable[[Row], Any]
    ) -> AsyncIterator[Row]:
        """Merge sorted streams."""
        if len(streams) == 1:
            async for row in streams[0]:
                yield row
            return
        async for _, row in merge(streams, order):
            yield row


class StepGroupNames:
    """The steps and partitions of a run's step groups, read again when a new step group appears."""

    def __init__(self, reader: RedisReader, shard: int, number: int) -> None:
        self._reader, self._shard, self._number = reader, shard, number
        self._known: Names = {}

    async def of(self, step_group: int) -> Sequence[str]:
        """Return the step and the partition of a step group."""
        if step_group not in self._known:
            self._known = await self._reader.names(self._shard, self._number)
        return self._known[step_group]


def pair_of(after: str | None) -> tuple[int, int]:
    """Return the two numbers of a cursor, zeros for the beginning; raises InvalidSetting."""
    if after is None:
        return 0, 0
    one, other = numbers_of(after, parts_of(after, 2))
    return one, other


def read_stats(replies: Iterable[Sequence[Any]]) -> Stats:
    """Return the counts of a run by step and partition, from the replies of the shards."""
    rows: list[tuple[str, str, int, int]] = []
    lost = 0
    for reply in replies:
        lost += int(reply[0])
        for name, packed in zip(reply[1::2], reply[2::2], strict=True):
            step, partition = name.decode().split("\0")
            rows += [(step, partition, counter, count) for counter, count in enumerate(numbers(packed))]
    return stats_from(rows, lost)


def _each(first: int, stored: list[Stored], width: int) -> Iterator[tuple[int, Stored, list[str]]]:
    """Yield the number, the origin and the texts of each result of one settle call."""
    position = first
    for one in stored:
        for start in range(0, len(one.data), width):
            yield position, one, one.data[start : start + width]
            position += 1


def _worker(worker: str, run_id: str, beat: tuple[int, str, str], done: list[int], now: int) -> WorkerStatus:
    at, state, info = beat
    completed, failed, items, leased = done
    return WorkerStatus(
        worker_id=worker,
        run_id=run_id,
        state=state,
        info=decode(info),
        last_beat=duration(max(0, now - at)),
        leased=leased,
        completed=completed,
        failed=failed,
        items=items,
    )
