"""The whole queue: overview, workers, hosts, tokens, scrapers, the audit log, and on-demand calls."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Query

from shoal.core.model import DeadFilter
from shoal.fleet.project.scrapers import ScraperRow
from shoal.fleet.status.all_runs import all_items, all_letters, run_item_row, run_letter_row
from shoal.fleet.status.at_work import state_of
from shoal.fleet.status.cache import cache_status
from shoal.fleet.status.overview import host_row, worker_row
from shoal.fleet.status.rows.fetchers import CacheRow, TokenRow
from shoal.fleet.status.rows.letters import RunLetterRow
from shoal.fleet.status.rows.runs import CountsRow
from shoal.fleet.status.rows.tasks import RunItemRow
from shoal.fleet.status.rows.workers import HostRow, OverviewRow, WorkerRow
from shoal.fleet.status.tokens import TokenStatus, tokens
from shoal.web.actions import Operator
from shoal.web.api.responses import (
    ErrorResponse,
    FleetStats,
    ForgetResponse,
    HostDelayResponse,
    HostPauseResponse,
    LinkRow,
    ScrapeResponse,
)
from shoal.web.audit import Action, read_actions
from shoal.web.context import WebContext
from shoal.web.errors import ApiError
from shoal.web.requests import LIMIT, After, Context, HostBody, Label, Limit, ScrapeBody, Step
from shoal.web.sampler import Sample
from shoal.web.views.paging import ListPage, as_async, cursor_page, scan_page

router = APIRouter(tags=["fleet"])

ScraperName = Annotated[str, Path(description="The scraper's name in the project", max_length=200)]
HostName = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.:\[\]-]{1,255}$", description="The host, as listed")]


@router.get("/overview")
async def overview(context: Context) -> OverviewRow:
    """Summarise the whole queue, as `shoal top --json` does."""
    return (await _sample(context)).overview.row()


@router.get("/stats")
async def stats(context: Context) -> FleetStats:
    """Add up workers, tasks and throughput of the newest runs."""
    sample = await _sample(context)
    seen = sample.overview
    return FleetStats(
        at=sample.at.isoformat(timespec="seconds"),
        runs=Counter(str(one.state) for one in seen.runs),
        workers=Counter(str(state_of(worker)) for worker in seen.workers),
        tasks=CountsRow.of(seen.tasks),
        rate=round(sum(one.rate for one in seen.runs), 2),
        errors=dict(seen.errors),
    )


@router.get("/workers")
async def workers(context: Context, limit: Limit = LIMIT, after: After = None) -> ListPage[WorkerRow]:
    """List all workers that have sent a heartbeat."""
    source = as_async(await context.app.queue.workers())
    found = await scan_page(source, lambda one: f"{one.worker_id} {one.run_id}", limit=limit, after=after)
    return found.of(worker_row)


@router.get("/hosts")
async def hosts(context: Context, limit: Limit = LIMIT, after: After = None) -> ListPage[HostRow]:
    """List the hosts with their gaps, pauses and remaining tasks."""
    return (await cursor_page(context.app.queue.hosts(after=after), limit)).of(host_row)


@router.get("/dead")
async def dead(
    context: Context,
    step: Step = None,
    host: Annotated[Label | None, Query(description="Only this host; without a port, on any")] = None,
    error: Annotated[Label | None, Query(description="Only errors that contain this text")] = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> ListPage[RunLetterRow]:
    """List the dead letters of all runs, the newest run first."""
    where = DeadFilter(step=step, host=host, error=error)
    return (await cursor_page(all_letters(context.app.queue, where, after=after), limit)).of(run_letter_row)


@router.get("/items")
async def items(
    context: Context, step: Step = None, limit: Limit = LIMIT, after: After = None
) -> ListPage[RunItemRow]:
    """List the items of all runs, the newest run first."""
    return (await cursor_page(all_items(context.app.queue, step=step, after=after), limit)).of(run_item_row)


@router.post("/hosts/{host}/pause")
async def pause_host(actions: Operator, host: HostName, body: HostBody) -> HostPauseResponse:
    """Send a host no requests for a while, in any run; zero ends a pause."""
    await actions.pause_host(host.lower(), timedelta(seconds=body.seconds))
    return HostPauseResponse(host.lower(), body.seconds)


@router.post("/hosts/{host}/slow")
async def slow_host(actions: Operator, host: HostName, body: HostBody) -> HostDelayResponse:
    """Set the minimum gap between request starts on a host, in any run; zero removes it."""
    await actions.slow_host(host.lower(), timedelta(seconds=body.seconds))
    return HostDelayResponse(host.lower(), body.seconds)


@router.get("/cache")
async def cache(context: Context, run_id: str | None = None) -> CacheRow:
    """Show the response cache in the queue: its size, and how often each run found a page in it."""
    return await cache_status(context.app.queue, run_id)


@router.get("/tokens")
async def all_tokens(context: Context, limit: Limit = LIMIT, after: After = None) -> ListPage[TokenRow]:
    """List the API tokens by name, never by value: the remaining quota of each, and which are retired."""
    source = as_async(await tokens(context.app.queue))
    return (await scan_page(source, lambda one: one.name, limit=limit, after=after)).of(TokenStatus.row)


@router.get("/scrapers")
async def scrapers(context: Context, limit: Limit = LIMIT, after: After = None) -> ListPage[ScraperRow]:
    """List the scrapers of the project."""
    rows = await asyncio.to_thread(context.scraper_rows.all)
    redacted = [replace(row, says=row.says and context.redact(row.says)) for row in rows]
    return await scan_page(as_async(redacted), lambda row: row.name, limit=limit, after=after)


@router.post("/scrapers/{scraper}/forget")
async def forget(actions: Operator, scraper: ScraperName) -> ForgetResponse:
    """Forget what runs of a scraper with `dedup` have queued; the next run queues it again."""
    return ForgetResponse(scraper, await actions.forget(scraper))


@router.get("/actions")
async def audit_log(context: Context, limit: Limit = LIMIT, after: After = None) -> ListPage[Action]:
    """List the actions taken through the pages and the API, newest first."""
    source = as_async(await read_actions(context.app.queue))
    return await scan_page(source, lambda one: one.id, limit=limit, after=after)


@router.post(
    "/scrape",
    responses={
        502: {"model": ErrorResponse, "description": "The page became a dead letter"},
        504: {"model": ErrorResponse, "description": "The call timed out"},
    },
)
async def scrape(actions: Operator, body: ScrapeBody) -> ScrapeResponse:
    """Have an on-demand worker fetch a page or handle a payload now; the response has its items."""
    timeout = timedelta(seconds=body.timeout)
    scraped = await actions.scrape(body.scraper, body.task(), timeout=timeout, strategy=body.strategy)
    follow = [LinkRow(link.url, link.step) for link in scraped.follow]
    return ScrapeResponse(**msgspec.structs.asdict(scraped) | {"follow": follow})


async def _sample(context: WebContext) -> Sample:
    sample = await context.sampler.fresh_sample()
    if sample.error:
        raise ApiError(503, "QueueUnavailable", sample.error)
    return sample
