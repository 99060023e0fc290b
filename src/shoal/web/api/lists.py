"""What a run has: tasks, records, hosts, workers, partitions, proxies, Tor, tokens, stale leases, results."""

import io
from collections.abc import AsyncIterator, Sequence
from enum import Enum
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import StreamingResponse

from shoal.export.contract import ExportOptions, Writer
from shoal.export.files.csv import CsvWriter
from shoal.export.files.jsonl import JsonlWriter
from shoal.export.follow import Items, batches, in_thread, stored_until, survey_items
from shoal.export.target import OutputTarget
from shoal.fleet.sources.revisits import forecast
from shoal.fleet.status.changes import ListedChange, list_changes
from shoal.fleet.status.overview import host_row, worker_row
from shoal.fleet.status.partitions import partitions
from shoal.fleet.status.proxies import proxies
from shoal.fleet.status.records import Record, records
from shoal.fleet.status.rows.fetchers import ProxyRow, TokenRow, TorRow
from shoal.fleet.status.rows.tasks import (
    ChangeRow,
    ExpiredTaskRow,
    ItemRow,
    RecordRow,
    RecrawlPlanReport,
    RejectRow,
    TaskRow,
)
from shoal.fleet.status.rows.workers import HostRow, PartitionRow, StaleRow, WorkerRow
from shoal.fleet.status.stale import StaleHolder, stale_holders
from shoal.fleet.status.tokens import tokens
from shoal.fleet.status.tor import tors
from shoal.web.requests import LIMIT, After, Context, Label, Limit, Number, RunId, States, Step
from shoal.web.views.paging import ListPage, as_async, cursor_page, id_page, scan_page, take
from shoal.worker.recrawl import PageChange

Format = Literal["jsonl", "csv"]
MEDIA_TYPES: dict[Format, str] = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}

router = APIRouter(prefix="/runs/{run_id}")
WORK: list[str | Enum] = ["work"]  # tags of the routes
RESULTS: list[str | Enum] = ["results"]


class _ChunkBuffer(OutputTarget):
    """Buffers what was written until it is sent."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        super().__init__("the download", self._bytes)

    def take(self) -> bytes:
        """Return and clear what was written since the last call."""
        chunk = self._bytes.getvalue()
        self._bytes.seek(0)
        self._bytes.truncate()
        return chunk

    def commit(self) -> None:
        """Do nothing: sent bytes cannot be taken back."""

    def discard(self) -> None:
        """Do nothing: sent bytes cannot be taken back."""


async def download(
    items: Items, format: Format, *, envelope: bool = False, raw: bool = False
) -> AsyncIterator[bytes]:
    """Yield the bytes of a file, a batch of items at a time; invalid items raise before the first byte.

    CSV reads the items twice: the columns are known only after all items were seen.
    """
    buffer = _ChunkBuffer()
    writer = _writer(buffer, format, envelope=envelope, raw=raw)
    last = await survey_items(items, writer) if writer.needs_survey else None
    return _chunks(items, writer, buffer, last)


async def _chunks(
    items: Items, writer: Writer, buffer: _ChunkBuffer, last: int | None
) -> AsyncIterator[bytes]:
    async for batch in batches(items()):
        await in_thread(writer.write, stored_until(batch, last))
        if chunk := buffer.take():
            yield chunk
    await in_thread(writer.close)
    yield buffer.take()


def _writer(buffer: _ChunkBuffer, format: Format, *, envelope: bool, raw: bool) -> Writer:
    options = ExportOptions(envelope=envelope, raw=raw)
    if format == "csv":
        return CsvWriter(buffer, options)
    return JsonlWriter(buffer, options)


@router.get("/items", tags=RESULTS)
async def items(
    context: Context, run_id: RunId, step: Step = None, limit: Limit = LIMIT, after: Number = 0
) -> ListPage[ItemRow]:
    """List the items in the order they were stored."""
    found = await take(context.app.queue.items(run_id, step=step, after=after), limit + 1)
    return id_page(found, lambda item: item.id, limit).of(ItemRow.of)


@router.get("/rejects", tags=RESULTS)
async def rejects(
    context: Context, run_id: RunId, step: Step = None, limit: Limit = LIMIT, after: Number = 0
) -> ListPage[RejectRow]:
    """List the items that failed validation or a filter, with the reasons."""
    found = await take(context.app.queue.rejects(run_id, step=step, after=after), limit + 1)
    return id_page(found, lambda reject: reject.id, limit).of(RejectRow.of)


@router.get("/changes", tags=RESULTS)
async def changes(
    context: Context,
    run_id: RunId,
    only: Annotated[PageChange | None, Query(description="Only pages of this kind")] = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> ListPage[ChangeRow]:
    """List the pages of a recrawl that are new, changed or gone, a row for each field that differs."""
    run = await context.app.queue.run(run_id)
    source = list_changes(context.app.queue, run, only=only, after=after)
    return (await cursor_page(source, limit)).of(ListedChange.row)


@router.get("/recrawl-plan", tags=RESULTS)
async def recrawl_plan(context: Context, run_id: RunId, limit: Limit = LIMIT) -> RecrawlPlanReport:
    """Show what the next run of the scraper would fetch of the pages of this one if it began now, and why."""
    queue = context.app.queue
    return await forecast(queue, await queue.run(run_id), limit=limit)


@router.get("/expired", tags=RESULTS)
async def expired(
    context: Context, run_id: RunId, limit: Limit = LIMIT, after: After = None
) -> ListPage[ExpiredTaskRow]:
    """List the tasks whose TTL ran out."""
    found = await cursor_page(context.app.queue.expired(run_id, after=after), limit)
    return found.of(lambda one: ExpiredTaskRow.of(one, one.task, task_id=one.id))


@router.get(
    "/export",
    tags=RESULTS,
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The items, as JSON lines or CSV",
            "content": {kind: {"schema": {"type": "string"}} for kind in MEDIA_TYPES.values()},
        }
    },
)
async def export(
    context: Context,
    run_id: RunId,
    format: Literal["jsonl", "csv"] = "jsonl",
    step: Step = None,
    envelope: Annotated[bool, Query(description="Include URL, step, task id and time")] = False,
    raw: Annotated[bool, Query(description="CSV: do not escape cells for spreadsheets")] = False,
) -> StreamingResponse:
    """Stream the items of a run as a file."""
    await context.app.queue.run(run_id)
    chunks = await download(
        lambda: context.app.queue.items(run_id, step=step), format, envelope=envelope, raw=raw
    )
    headers = {"Content-Disposition": f'attachment; filename="{run_id}.{format}"'}
    return StreamingResponse(chunks, media_type=MEDIA_TYPES[format], headers=headers)


@router.get("/tasks", tags=WORK)
async def tasks(
    context: Context,
    run_id: RunId,
    step: Step = None,
    state: States = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> ListPage[TaskRow]:
    """List the tasks in their current state."""
    source = context.app.queue.tasks(run_id, step=step, states=state, after=after)
    return (await cursor_page(source, limit)).of(lambda one: TaskRow.of(one, one.task, task_id=one.id))


@router.get("/records", tags=WORK)
async def all_records(
    context: Context,
    run_id: RunId,
    step: Step = None,
    state: States = None,
    key: Annotated[Label | None, Query(description="One record only: its key, URL or payload")] = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> ListPage[RecordRow]:
    """List the progress of every record through the steps."""
    source = records(context.app.queue, run_id, step=step, states=state, key=key)
    return (await scan_page(source, lambda record: record.name, limit=limit, after=after)).of(Record.row)


@router.get("/hosts", tags=WORK)
async def hosts(
    context: Context, run_id: RunId, limit: Limit = LIMIT, after: After = None
) -> ListPage[HostRow]:
    """List the hosts of a run with their remaining tasks."""
    return (await cursor_page(context.app.queue.hosts(run_id, after=after), limit)).of(host_row)


@router.get("/workers", tags=WORK)
async def workers(
    context: Context, run_id: RunId, limit: Limit = LIMIT, after: After = None
) -> ListPage[WorkerRow]:
    """List the workers of a run."""
    source = as_async(await context.app.queue.workers(run_id))
    return (await scan_page(source, lambda one: one.worker_id, limit=limit, after=after)).of(worker_row)


@router.get("/partitions", tags=WORK)
async def all_partitions(
    context: Context, run_id: RunId, limit: Limit = LIMIT, after: After = None
) -> ListPage[PartitionRow]:
    """List the partitions with their remaining tasks and owners."""
    return await _by_name(await partitions(context.app.queue, run_id), limit, after)


@router.get("/proxies", tags=WORK)
async def all_proxies(
    context: Context, run_id: RunId, limit: Limit = LIMIT, after: After = None
) -> ListPage[ProxyRow]:
    """List the proxies with their counts, and which are benched."""
    return await _by_name(await proxies(context.app.queue, run_id), limit, after)


@router.get("/tor", tags=WORK)
async def tor(context: Context, run_id: RunId, limit: Limit = LIMIT, after: After = None) -> ListPage[TorRow]:
    """List the Tor process of each worker at work: whether it is up, and what it says."""
    return await _by_name(await tors(context.app.queue, run_id), limit, after)


@router.get("/tokens", tags=WORK)
async def all_tokens(
    context: Context, run_id: RunId, limit: Limit = LIMIT, after: After = None
) -> ListPage[TokenRow]:
    """List the API tokens that a run used recently: the remaining quota of each, and which are retired."""
    return await _by_name(await tokens(context.app.queue, run_id), limit, after)


async def _by_name(found: Sequence[Any], limit: int, after: str | None) -> ListPage[Any]:
    page = await scan_page(as_async(found), lambda one: str(one.name), limit=limit, after=after)
    return page.of(lambda one: one.row())


@router.get("/stale", tags=WORK)
async def stale(
    context: Context, run_id: RunId, limit: Limit = LIMIT, after: After = None
) -> ListPage[StaleRow]:
    """List workers that hold tasks and missed their heartbeats, or have held them for very long."""
    source = as_async(await stale_holders(context.app.queue, run_id))
    return (await scan_page(source, lambda one: one.worker_id, limit=limit, after=after)).of(StaleHolder.row)
