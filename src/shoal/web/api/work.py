"""What a run is made of: tasks, records, hosts, workers, partitions, proxies, stale leases."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from shoal.fleet.overview import host_row, worker_row
from shoal.fleet.partitions import PartitionStatus, partitions
from shoal.fleet.proxies import ProxyStatus, proxies
from shoal.fleet.records import Record, records
from shoal.fleet.rows import task_row
from shoal.fleet.staleness import Holder, stale_holders
from shoal.fleet.tokens import TokenStatus, tokens
from shoal.web.api import schema
from shoal.web.api.params import LIMIT, After, Label, Limit, RunId, States, Step, TheSite, listed
from shoal.web.paging import each, page, placed

router = APIRouter(prefix="/runs/{run_id}", tags=["work"])


@router.get("/tasks", response_model=schema.Listed[schema.TaskRow])
async def tasks(
    site: TheSite,
    run_id: RunId,
    step: Step = None,
    state: States = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> dict[str, Any]:
    """List the tasks as they are now."""
    source = site.app.queue.tasks(run_id, step=step, states=state, after=after)
    return listed(await placed(source, limit), task_row)


@router.get("/records", response_model=schema.Listed[schema.RecordRow])
async def all_records(
    site: TheSite,
    run_id: RunId,
    step: Step = None,
    state: States = None,
    key: Annotated[Label | None, Query(description="One record only: its key, URL or payload")] = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> dict[str, Any]:
    """List every record's way through the steps."""
    source = records(site.app.queue, run_id, step=step, states=state, key=key)
    found = await page(source, lambda record: record.name, limit=limit, after=after)
    return listed(found, Record.as_json)


@router.get("/hosts", response_model=schema.Listed[schema.HostRow])
async def hosts(site: TheSite, run_id: RunId, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List the hosts of a run, and what is left to ask of them."""
    return listed(await placed(site.app.queue.hosts(run_id, after=after), limit), host_row)


@router.get("/workers", response_model=schema.Listed[schema.WorkerRow])
async def workers(site: TheSite, run_id: RunId, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List the workers of a run."""
    source = each(await site.app.queue.workers(run_id))
    return listed(await page(source, lambda worker: worker.worker_id, limit=limit, after=after), worker_row)


@router.get("/partitions", response_model=schema.Listed[schema.PartitionRow])
async def all_partitions(
    site: TheSite, run_id: RunId, limit: Limit = LIMIT, after: After = None
) -> dict[str, Any]:
    """List the partitions: what is left of each, and who has it."""
    source = each(await partitions(site.app.queue, run_id))
    found = await page(source, lambda one: one.name, limit=limit, after=after)
    return listed(found, PartitionStatus.as_json)


@router.get("/proxies", response_model=schema.Listed[schema.ProxyRow])
async def all_proxies(
    site: TheSite, run_id: RunId, limit: Limit = LIMIT, after: After = None
) -> dict[str, Any]:
    """List the proxies: what came by each, and which are benched."""
    source = each(await proxies(site.app.queue, run_id))
    return listed(await page(source, lambda one: one.name, limit=limit, after=after), ProxyStatus.as_json)


@router.get("/tokens", response_model=schema.Listed[schema.TokenRow])
async def all_tokens(
    site: TheSite, run_id: RunId, limit: Limit = LIMIT, after: After = None
) -> dict[str, Any]:
    """List the API tokens that a run used lately: what is left of each, and which were retired."""
    source = each(await tokens(site.app.queue, run_id))
    return listed(await page(source, lambda one: one.name, limit=limit, after=after), TokenStatus.as_json)


@router.get("/stale", response_model=schema.Listed[schema.StaleRow])
async def stale(site: TheSite, run_id: RunId, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List who holds tasks and has gone silent, or has held them for very long."""
    source = each(await stale_holders(site.app.queue, run_id))
    return listed(await page(source, lambda one: one.worker_id, limit=limit, after=after), Holder.as_json)
