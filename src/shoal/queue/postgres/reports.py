"""Lists that are read page by page: items, rejects, expired tasks and hosts."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from shoal.core.model import ZERO, ExpiredTask, HostStatus, StoredItem, StoredReject, Task
from shoal.queue.contract import QueueReports
from shoal.queue.encoding import counts_from
from shoal.queue.intake import decode, read_payload
from shoal.queue.paging import cursor_of, number_in, page_sizes
from shoal.queue.postgres.runs import find_run, fold_counts
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import QUERIES

PAGE = 500
INT_MAX, MAX_ROW_ID = (1 << 31) - 1, 1 << 62
MAX_PAGE_BYTES = 8 << 20  # a page of items ends early after this
# The last export of a run must finish even if a settlement hangs.
SETTLE_TIMEOUT = timedelta(seconds=10)
MIN_WAIT, MAX_WAIT = 0.01, 0.2  # seconds

Record = TypeVar("Record")
Row = Any

log = logging.getLogger(__name__)


class PostgresReports(QueueReports):
    """The lists of a queue that are read page by page."""

    _server: PostgresServer

    def items(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredItem]:
        return _stream_stored(self._server, run_id, "item", _item, after, step)

    def rejects(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredReject]:
        return _stream_stored(self._server, run_id, "reject", _reject, after, step)

    def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        return stream_pages(self._server, run_id, "expired", _expired, after)

    async def _entered(self, run_id: str, ids: Sequence[bytes]) -> set[str]:
        await find_run(self._server, run_id)
        rows = await self._server.fetch(QUERIES["entered"], run_id, ids)
        return {row["id"].hex() for row in rows}

    async def hosts(
        self, run_id: str | None = None, *, after: str | None = None
    ) -> AsyncIterator[HostStatus]:
        query, args = (
            ("hosts", []) if run_id is None else ("hosts_of_run", [(await find_run(self._server, run_id)).id])
        )
        last, sizes = min(number_in(after), INT_MAX), page_sizes(PAGE)
        await fold_counts(self._server)
        while rows := await self._server.fetch(QUERIES[query], last, next(sizes), *args):
            for row in rows:
                yield HostStatus(
                    host=row["name"],
                    counts=counts_from(zip(row["kinds"], row["counts"], strict=True)),
                    delay=row["delay"] or None,
                    paused_for=row["paused_for"] if row["paused_for"] > ZERO else None,
                    cursor=cursor_of(row["id"]),
                )
            last = rows[-1]["id"]


async def _stream_stored(
    server: PostgresServer,
    run_id: str,
    table: str,
    make: Callable[[Row], Record],
    after: int,
    step: str | None,
) -> AsyncIterator[Record]:
    await find_run(server, run_id)
    query, sizes = stored_query(table), page_sizes(PAGE)
    until = await _find_horizon(server, run_id, table)
    while rows := await server.fetch(query, run_id, after, next(sizes), step, until, MAX_PAGE_BYTES):
        for row in rows:
            if row["data"] is not None:
                yield make(row)
        after = rows[-1]["id"]


def stored_query(table: str) -> str:
    """Return the query of a page of items or of rejects; only these have a reason."""
    reason = "i.reason" if table == "reject" else "NULL"
    return QUERIES["stored"].replace("shoal.stored_table", f"shoal.{table}").replace("stored_reason", reason)


async def _find_horizon(server: PostgresServer, run_id: str, table: str) -> int:
    """Wait until no running settlement can store a lower id, and return the id up to which to read.

    Ids are assigned before a settlement commits, so a higher id may become visible before a lower one.
    Everything committed now is below it. After SETTLE_TIMEOUT it is returned in any case.
    """
    rows = await server.fetch(QUERIES["read_horizon"], run_id, f"{server.schema}.{table}_id_seq")
    if not rows:  # purged
        return 0
    if not await _wait_for_end(server, rows[0]["storing"]):
        log.warning("Run %s: a settlement takes too long; its items may be read out of order", run_id)
    return int(rows[0]["drawn"])


async def _wait_for_end(server: PostgresServer, transactions: list[str]) -> bool:
    """Wait for transactions to end; False after SETTLE_TIMEOUT."""
    loop = asyncio.get_running_loop()
    deadline, wait = loop.time() + SETTLE_TIMEOUT.total_seconds(), MIN_WAIT
    while transactions:
        if loop.time() > deadline:
            return False
        await asyncio.sleep(wait)
        wait = min(2 * wait, MAX_WAIT)
        transactions = [row[0] for row in await server.fetch(QUERIES["running_transactions"], transactions)]
    return True


async def stream_pages(
    server: PostgresServer,
    run_id: str,
    query: str,
    make: Callable[[Row], Record],
    after: str | None,
    *args: Any,
) -> AsyncIterator[Record]:
    """Read a query page by page, from the row after a cursor; raises UnknownRun."""
    await find_run(server, run_id)
    sizes, last = page_sizes(PAGE), min(number_in(after), MAX_ROW_ID)
    while rows := await server.fetch(QUERIES[query], run_id, last, next(sizes), *args):
        for row in rows:
            yield make(row)
        last = rows[-1]["id"]


def task_from(row: Row) -> Task:
    """Return the task of a row."""
    payload, options = read_payload(row["payload"])
    return Task(
        url=row["url"],
        step=row["step"],
        payload=payload,
        key=row["key"],
        partition=row["partition"],
        priority=row["priority"],
        ttl=row["ttl"],
        delay=row["delay"] or ZERO,
        depth=row["depth"],
        request=options,
    )


def _stored(row: Row) -> dict[str, Any]:
    """Return the fields of an item or of a reject."""
    return {
        "id": row["id"],
        "task_id": row["task"].hex(),
        "url": row["url"],
        "step": row["step"],
        "data": decode(row["data"]),
        "stored_at": row["stored_at"],
    }


def _item(row: Row) -> StoredItem:
    return StoredItem(**_stored(row))


def _reject(row: Row) -> StoredReject:
    return StoredReject(**_stored(row), reason=row["reason"])


def _expired(row: Row) -> ExpiredTask:
    return ExpiredTask(
        id=row["task"].hex(), task=task_from(row), expired_at=row["expired_at"], cursor=cursor_of(row["id"])
    )
