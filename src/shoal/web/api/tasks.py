"""The tasks of a run by task, record, host, worker, partition, proxy, token; and stale leases."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query

from shoal.fleet.partitions.membership import PartitionStatus, partitions
from shoal.fleet.status.overview import host_row, worker_row
from shoal.fleet.status.proxies import ProxyStatus, proxies
from shoal.fleet.status.records import Record, records
from shoal.fleet.status.rows import task_row
from shoal.fleet.status.stale import StaleHolder, stale_holders
from shoal.fleet.status.tokens import TokenStatus, tokens
from shoal.web.api import responses
from shoal.web.api.params import LIMIT, After, Context, Limit, RunId, States, Step, list_response
from shoal.web.api.requests import Label
from shoal.web.views.paging import as_async, cursor_page, scan_page

router = APIRouter(prefix="/runs/{run_id}", tags=["work"])


@router.get("/tasks", response_model=responses.ListResponse[responses.TaskResponse])
async def tasks(
    context: Context,
    run_id: RunId,
    step: Step = None,
    state: States = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> dict[str, Any]:
    """List the tasks in their current state."""
    source = context.app.queue.tasks(run_id, step=step, states=state, after=after)
    return list_response(await cursor_page(source, limit), task_row)


@router.get("/records", response_model=responses.ListResponse[responses.RecordRow])
async def all_records(
    context: Context,
    run_id: RunId,
    step: Step = None,
    state: States = None,
    key: Annotated[Label | None, Query(description="One record only: its key, URL or payload")] = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> dict[str, Any]:
    """List the progress of every record through the steps."""
    source = records(context.app.queue, run_id, step=step, states=state, key=key)
    found = await scan_page(source, lambda record: record.name, limit=limit, after=after)
    return list_response(found, Record.as_json)


@router.get("/hosts", response_model=responses.ListResponse[responses.HostResponse])
async def hosts(context: Context, run_id: RunId, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List the hosts of a run with their remaining tasks."""
    return list_response(await cursor_page(context.app.queue.hosts(run_id, after=after), limit), host_row)


@router.get("/workers", response_model=responses.ListResponse[responses.WorkerResponse])
async def workers(
    context: Context, run_id: RunId, limit: Limit = LIMIT, after: After = None
) -> dict[str, Any]:
    """List the workers of a run."""
    source = as_async(await context.app.queue.workers(run_id))
    return list_response(
        await scan_page(source, lambda worker: worker.worker_id, limit=limit, after=after), worker_row
    )


@router.get("/partitions", response_model=responses.ListResponse[responses.PartitionRow])
async def all_partitions(
    context: Context, run_id: RunId, limit: Limit = LIMIT, after: After = None
) -> dict[str, Any]:
    """List the partitions with their remaining tasks and owners."""
    return await _by_name(await partitions(context.app.queue, run_id), limit, after)


@router.get("/proxies", response_model=responses.ListResponse[responses.ProxyRow])
async def all_proxies(
    context: Context, run_id: RunId, limit: Limit = LIMIT, after: After = None
) -> dict[str, Any]:
    """List the proxies with their counts, and which are benched."""
    return await _by_name(await proxies(context.app.queue, run_id), limit, after)


@router.get("/tokens", response_model=responses.ListResponse[responses.TokenRow])
async def all_tokens(
    context: Context, run_id: RunId, limit: Limit = LIMIT, after: After = None
) -> dict[str, Any]:
    """List the API tokens that a run used recently: the remaining quota of each, and which are retired."""
    return await _by_name(await tokens(context.app.queue, run_id), limit, after)


async def _by_name(
    found: Sequence[PartitionStatus | ProxyStatus | TokenStatus], limit: int, after: str | None
) -> dict[str, Any]:
    page = await scan_page(as_async(found), lambda one: one.name, limit=limit, after=after)
    return list_response(page, lambda one: one.as_json())


@router.get("/stale", response_model=responses.ListResponse[responses.StaleRow])
async def stale(context: Context, run_id: RunId, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List workers that hold tasks and missed their heartbeats, or have held them for very long."""
    source = as_async(await stale_holders(context.app.queue, run_id))
    return list_response(
        await scan_page(source, lambda one: one.worker_id, limit=limit, after=after), StaleHolder.as_json
    )
