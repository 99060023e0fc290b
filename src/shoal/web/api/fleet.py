"""The whole queue: overview, workers, hosts, tokens, scrapers, the audit log, and on-demand calls."""

import asyncio
from collections import Counter
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path

from shoal.core.model import Counts
from shoal.fleet.status.cache import cache_status
from shoal.fleet.status.overview import host_row, worker_row
from shoal.fleet.status.progress import counts_as_json
from shoal.fleet.status.stale import state_of
from shoal.fleet.status.tokens import TokenStatus, tokens
from shoal.web.api import action_responses, responses
from shoal.web.api.params import LIMIT, After, Context, Limit, Operator, list_response
from shoal.web.api.requests import HostBody, ScrapeBody
from shoal.web.audit import Action, read_actions
from shoal.web.context import WebContext
from shoal.web.errors import ApiError
from shoal.web.sampler import Sample
from shoal.web.views.paging import as_async, cursor_page, scan_page

router = APIRouter(tags=["fleet"])

ScraperName = Annotated[str, Path(description="The scraper's name in the project", max_length=200)]
HostName = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.:\[\]-]{1,255}$", description="The host, as listed")]
_SUMMED = ("pending", "delayed", "leased", "completed", "dead", "expired", "dropped", "items", "rejected")


@router.get("/overview", response_model=responses.OverviewResponse)
async def overview(context: Context) -> dict[str, Any]:
    """Summarise the whole queue, as `shoal top --json` does."""
    return (await _sample(context)).overview.as_json()


@router.get("/stats", response_model=responses.FleetStats)
async def stats(context: Context) -> dict[str, Any]:
    """Add up workers, tasks and throughput of the newest runs."""
    sample = await _sample(context)
    seen = sample.overview
    sums = {name: sum(getattr(one.stats, name) for one in seen.runs) for name in _SUMMED}
    return {
        "at": sample.at.isoformat(timespec="seconds"),
        "runs": Counter(one.state for one in seen.runs),
        "workers": Counter(state_of(worker) for worker in seen.workers),
        "tasks": counts_as_json(Counts(**sums)),
        "rate": round(sum(one.rate for one in seen.runs), 2),
        "errors": dict(seen.errors),
    }


@router.get("/workers", response_model=responses.ListResponse[responses.WorkerResponse])
async def workers(context: Context, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List all workers that have sent a heartbeat."""
    source = as_async(await context.app.queue.workers())
    found = await scan_page(source, lambda one: f"{one.worker_id} {one.run_id}", limit=limit, after=after)
    return list_response(found, worker_row)


@router.get("/hosts", response_model=responses.ListResponse[responses.HostResponse])
async def hosts(context: Context, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List the hosts with their gaps, pauses and remaining tasks."""
    return list_response(await cursor_page(context.app.queue.hosts(after=after), limit), host_row)


@router.post("/hosts/{host}/pause", response_model=action_responses.HostPauseResponse)
async def pause_host(actions: Operator, host: HostName, body: HostBody) -> dict[str, Any]:
    """Send a host no requests for a while, in any run; zero ends a pause."""
    await actions.pause_host(host.lower(), timedelta(seconds=body.seconds))
    return {"host": host.lower(), "paused_seconds": body.seconds}


@router.post("/hosts/{host}/slow", response_model=action_responses.HostDelayResponse)
async def slow_host(actions: Operator, host: HostName, body: HostBody) -> dict[str, Any]:
    """Set the minimum gap between request starts on a host, in any run; zero removes it."""
    await actions.slow_host(host.lower(), timedelta(seconds=body.seconds))
    return {"host": host.lower(), "delay_seconds": body.seconds}


@router.get("/cache", response_model=responses.CacheResponse)
async def cache(context: Context, run_id: str | None = None) -> dict[str, Any]:
    """Show the response cache in the queue: its size, and how often each run found a page in it."""
    return (await cache_status(context.app.queue, run_id)).as_json()


@router.get("/tokens", response_model=responses.ListResponse[responses.TokenRow])
async def all_tokens(context: Context, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List the API tokens by name, never by value: the remaining quota of each, and which are retired."""
    source = as_async(await tokens(context.app.queue))
    return list_response(
        await scan_page(source, lambda one: one.name, limit=limit, after=after), TokenStatus.as_json
    )


@router.get("/scrapers", response_model=responses.ListResponse[responses.ScraperRow])
async def scrapers(context: Context, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List the scrapers of the project."""
    rows = await asyncio.to_thread(context.scraper_rows.all)
    redacted = [row | {"says": row["says"] and context.redact(row["says"])} for row in rows]
    return list_response(
        await scan_page(as_async(redacted), lambda row: row["name"], limit=limit, after=after), dict
    )


@router.post("/scrapers/{scraper}/forget", response_model=action_responses.ForgetResponse)
async def forget(actions: Operator, scraper: ScraperName) -> dict[str, Any]:
    """Forget what runs of a scraper with `dedup` have queued; the next run queues it again."""
    return {"scraper": scraper, "forgotten": await actions.forget(scraper)}


@router.get("/actions", response_model=responses.ListResponse[responses.ActionRow])
async def audit_log(context: Context, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List the actions taken through the pages and the API, newest first."""
    source = as_async(await read_actions(context.app.queue))
    return list_response(
        await scan_page(source, lambda one: one.id, limit=limit, after=after), Action.as_json
    )


@router.post(
    "/scrape",
    response_model=action_responses.ScrapeResponse,
    responses={
        502: {"model": responses.ErrorResponse, "description": "The page became a dead letter"},
        504: {"model": responses.ErrorResponse, "description": "The call timed out"},
    },
)
async def scrape(actions: Operator, body: ScrapeBody) -> dict[str, Any]:
    """Have an on-demand worker fetch a page or handle a payload now; the response has its items."""
    timeout = timedelta(seconds=body.timeout)
    scraped = await actions.scrape(body.scraper, body.task(), timeout=timeout, strategy=body.strategy)
    follow = [{"url": link.url, "step": link.step} for link in scraped.follow]
    return {**asdict(scraped), "follow": follow}


async def _sample(context: WebContext) -> Sample:
    sample = await context.sampler.fresh_sample()
    if sample.error:
        raise ApiError(503, "QueueUnavailable", sample.error)
    return sample
