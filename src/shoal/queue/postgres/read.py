"""Read queries: counts, and streams that are read page by page."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

from shoal.core.model import (
    ZERO,
    Attempt,
    DeadFilter,
    DeadLetter,
    ExpiredTask,
    HostStatus,
    Run,
    Stats,
    StoredItem,
    StoredReject,
    WorkerStatus,
)
from shoal.queue.cursors import cursor_of, numbers_of, page_sizes, parts_of
from shoal.queue.intake import decode
from shoal.queue.postgres.read_horizon import find_horizon
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import FOLD, QUERIES
from shoal.queue.postgres.wire import Row, counts, counts_from, filter_columns, task_from

PAGE = 500
INT_MAX = (1 << 31) - 1
FOLD_BATCH = 10_000  # deltas per call
MAX_PAGE_BYTES = 8 << 20  # a page of items ends early after this
Record = TypeVar("Record")


async def stats(server: PostgresServer, run: Run) -> Stats:
    """Return the counts of a run by step and partition."""
    rows = await server.fetch(QUERIES["stats"], run.id)
    steps: dict[str, list[tuple[int, int]]] = {}
    partitions: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        pair = (row["kind"], row["count"])
        steps.setdefault(row["step"], []).append(pair)
        partitions.setdefault(row["partition"], []).append(pair)
    return Stats(
        **counts_from((row["kind"], row["count"]) for row in rows),
        steps={step: counts(pairs) for step, pairs in steps.items()},
        partitions={partition: counts(pairs) for partition, pairs in partitions.items()},
    )


def items(
    server: PostgresServer, run: Awaitable[Run], step: str | None, after: int
) -> AsyncIterator[StoredItem]:
    """Stream the items of a run."""
    return _stream_stored(server, run, "item", _item, after, step)


def rejects(
    server: PostgresServer, run: Awaitable[Run], step: str | None, after: int
) -> AsyncIterator[StoredReject]:
    """Stream the rejects of a run."""
    return _stream_stored(server, run, "reject", _reject, after, step)


def expired(server: PostgresServer, run: Awaitable[Run], after: str | None) -> AsyncIterator[ExpiredTask]:
    """Stream the expired tasks of a run."""
    return _stream_pages(server, run, "expired", _expired, after)


def dead(
    server: PostgresServer, run: Awaitable[Run], where: DeadFilter, after: str | None
) -> AsyncIterator[DeadLetter]:
    """Stream the dead letters of a run."""
    return _stream_pages(server, run, "dead", _dead, after, *filter_columns(None, where)[1:])


async def dead_letters_by_id(
    server: PostgresServer, run: Awaitable[Run], ids: Sequence[bytes], where: DeadFilter, after: str | None
) -> AsyncIterator[DeadLetter]:
    """Stream the dead letters of a run that have these ids."""
    run_id, conditions = (await run).id, filter_columns(None, where)[1:]
    for found in await server.fetch(QUERIES["dead_by_id"], run_id, _read_number(after), ids, *conditions):
        for row in await server.fetch(QUERIES["dead"], run_id, found["id"] - 1, 1, *conditions):
            if row["id"] == found["id"]:
                yield _dead(row)


async def entered(server: PostgresServer, run: Awaitable[Run], ids: list[bytes]) -> set[str]:
    """Return the ids among these that are of tasks of a run."""
    rows = await server.fetch(QUERIES["entered"], (await run).id, ids)
    return {row["id"].hex() for row in rows}


async def hosts(
    server: PostgresServer, run: Awaitable[Run] | None, after: str | None
) -> AsyncIterator[HostStatus]:
    """Stream the hosts, of one run or of all."""
    query, args = ("hosts_of_run", [(await run).id]) if run else ("hosts", [])
    last, sizes = _read_number(after, INT_MAX), page_sizes(PAGE)
    await _fold(server)
    while rows := await server.fetch(QUERIES[query], last, next(sizes), *args):
        for row in rows:
            yield HostStatus(
                host=row["name"],
                counts=counts(zip(row["kinds"], row["counts"], strict=True)),
                delay=row["delay"] or None,
                paused_for=row["paused_for"] if row["paused_for"] > ZERO else None,
                cursor=cursor_of(row["id"]),
            )
        last = rows[-1]["id"]


async def _fold(server: PostgresServer) -> None:
    """Fold all pending deltas into the totals."""
    while await server.value(FOLD, FOLD_BATCH) >= FOLD_BATCH:
        pass


async def workers(server: PostgresServer, run: Run | None) -> Sequence[WorkerStatus]:
    """Return the workers, of one run or of all."""
    await _fold(server)
    rows = await server.fetch(QUERIES["workers"], run and run.id)
    return [
        WorkerStatus(
            worker_id=row["worker_id"],
            run_id=row["run_id"],
            state=row["state"],
            info=decode(row["info"]),
            last_beat=max(row["last_beat"], ZERO),
            leased=row["leased"],
            completed=row["completed"],
            failed=row["failed"],
            items=row["items"],
        )
        for row in rows
    ]


async def _stream_stored(
    server: PostgresServer,
    run: Awaitable[Run],
    table: str,
    make: Callable[[Row], Record],
    after: int,
    step: str | None,
) -> AsyncIterator[Record]:
    run_id, sizes = (await run).id, page_sizes(PAGE)
    until = await find_horizon(server, run_id, table)
    while rows := await server.fetch(
        QUERIES[f"{table}s"], run_id, after, next(sizes), step, until, MAX_PAGE_BYTES
    ):
        for row in rows:
            if row["data"] is not None:
                yield make(row)
        after = rows[-1]["id"]


async def _stream_pages(
    server: PostgresServer,
    run: Awaitable[Run],
    query: str,
    make: Callable[[Row], Record],
    after: str | None,
    *args: Any,
) -> AsyncIterator[Record]:
    run_id, sizes = (await run).id, page_sizes(PAGE)
    last = _read_number(after)
    while rows := await server.fetch(QUERIES[query], run_id, last, next(sizes), *args):
        for row in rows:
            yield make(row)
        last = rows[-1]["id"]


def _read_number(after: str | None, max_number: int = 1 << 62) -> int:
    """Return the number in a cursor; raises InvalidSetting."""
    number = 0 if after is None else numbers_of(after, parts_of(after, 1))[0]
    return min(number, max_number)


def _item(row: Row) -> StoredItem:
    return StoredItem(
        id=row["id"],
        task_id=row["task"].hex(),
        url=row["url"],
        step=row["step"],
        data=decode(row["data"]),
        stored_at=row["stored_at"],
    )


def _reject(row: Row) -> StoredReject:
    return StoredReject(
        id=row["id"],
        task_id=row["task"].hex(),
        url=row["url"],
        step=row["step"],
        data=decode(row["data"]),
        reason=row["reason"],
        stored_at=row["stored_at"],
    )


def _expired(row: Row) -> ExpiredTask:
    return ExpiredTask(
        id=row["task"].hex(), task=task_from(row), expired_at=row["expired_at"], cursor=cursor_of(row["id"])
    )


def _dead(row: Row) -> DeadLetter:
    history = zip(row["h_attempts"], row["h_workers"], row["h_errors"], row["h_ended"], strict=True)
    return DeadLetter(
        id=row["task"].hex(),
        task=task_from(row),
        attempts=row["attempts"],
        error=row["error"],
        history=tuple(
            Attempt.stored(attempt, worker, text, ended) for attempt, worker, text, ended in history
        ),
        buried_at=row["buried_at"],
        cursor=cursor_of(row["id"]),
    )
