"""The whole queue: overview, workers, hosts, scrapers, what was done by the web, and pages on demand."""

import asyncio
from collections import Counter
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path

from shoal.core.model import Counts
from shoal.fleet.overview import host_row, worker_row
from shoal.fleet.progress import counts_as_json
from shoal.fleet.staleness import state_of
from shoal.fleet.tokens import TokenStatus, tokens
from shoal.web import deeds
from shoal.web.actions import Action, actions
from shoal.web.answers import Refused
from shoal.web.api import receipts, schema
from shoal.web.api.params import LIMIT, After, Limit, Operator, TheSite, listed
from shoal.web.api.wishes import HostWish, ScrapeWish
from shoal.web.paging import each, page, placed
from shoal.web.sampler import Sample
from shoal.web.site import Site

router = APIRouter(tags=["fleet"])

ScraperName = Annotated[str, Path(description="The scraper's name in the project", max_length=200)]
HostName = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9_.:\[\]-]{1,255}$", description="The host, as it is listed")
]
_SUMMED = ("pending", "delayed", "leased", "completed", "dead", "expired", "dropped", "items", "rejected")


@router.get("/overview", response_model=schema.Overview)
async def overview(site: TheSite) -> dict[str, Any]:
    """Show everything at one glance, as `shoal top --json` does."""
    return (await _sample(site)).overview.as_json()


@router.get("/stats", response_model=schema.FleetStats)
async def stats(site: TheSite) -> dict[str, Any]:
    """Add up workers, tasks and throughput of the newest runs."""
    sample = await _sample(site)
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


@router.get("/workers", response_model=schema.Listed[schema.WorkerRow])
async def workers(site: TheSite, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List the workers that have ever sent a heartbeat."""
    source = each(await site.app.queue.workers())
    found = await page(source, lambda one: f"{one.worker_id} {one.run_id}", limit=limit, after=after)
    return listed(found, worker_row)


@router.get("/hosts", response_model=schema.Listed[schema.HostRow])
async def hosts(site: TheSite, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List the hosts, how they are treated, and what is left to ask of them."""
    return listed(await placed(site.app.queue.hosts(after=after), limit), host_row)


@router.post("/hosts/{host}/pause", response_model=receipts.HostPaused)
async def pause_host(site: TheSite, guest: Operator, host: HostName, wish: HostWish) -> dict[str, Any]:
    """Ask a host nothing for a while, in any run; zero ends a pause."""
    await deeds.pause_host(site, guest, host.lower(), timedelta(seconds=wish.seconds))
    return {"host": host.lower(), "paused_seconds": wish.seconds}


@router.post("/hosts/{host}/slow", response_model=receipts.HostSlowed)
async def slow_host(site: TheSite, guest: Operator, host: HostName, wish: HostWish) -> dict[str, Any]:
    """Keep at least this gap between two starts on a host, in any run; zero lifts it."""
    await deeds.slow_host(site, guest, host.lower(), timedelta(seconds=wish.seconds))
    return {"host": host.lower(), "delay_seconds": wish.seconds}


@router.get("/tokens", response_model=schema.Listed[schema.TokenRow])
async def all_tokens(site: TheSite, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List the API tokens by name, never by what they are: what is left of each, and which were retired."""
    source = each(await tokens(site.app.queue))
    return listed(await page(source, lambda one: one.name, limit=limit, after=after), TokenStatus.as_json)


@router.get("/scrapers", response_model=schema.Listed[schema.ScraperRow])
async def scrapers(site: TheSite, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List the scrapers of the project."""
    rows = await asyncio.to_thread(site.scraper_rows.all)
    told = [row | {"says": row["says"] and site.redact(row["says"])} for row in rows]
    return listed(await page(each(told), lambda row: row["name"], limit=limit, after=after), dict)


@router.post("/scrapers/{scraper}/forget", response_model=receipts.Forgotten)
async def forget(site: TheSite, guest: Operator, scraper: ScraperName) -> dict[str, Any]:
    """Forget what runs of a scraper with `dedup` have queued: the next one queues it again."""
    return {"scraper": scraper, "forgotten": await deeds.forget(site, guest, scraper)}


@router.get("/actions", response_model=schema.Listed[schema.ActionRow])
async def done(site: TheSite, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List who did what by the web, the newest first."""
    source = each(await actions(site.app.queue))
    return listed(await page(source, lambda one: one.id, limit=limit, after=after), Action.as_json)


@router.post(
    "/scrape",
    response_model=receipts.ScrapedRow,
    responses={
        502: {"model": schema.Trouble, "description": "The page became a dead letter"},
        504: {"model": schema.Trouble, "description": "No answer came in time"},
    },
)
async def scrape(site: TheSite, guest: Operator, wish: ScrapeWish) -> dict[str, Any]:
    """Have a worker that listens fetch a page, or handle a payload, now, and answer with its items."""
    timeout = timedelta(seconds=wish.timeout)
    scraped = await deeds.scrape(site, guest, wish.scraper, wish.task(), timeout=timeout)
    follow = [{"url": link.url, "step": link.step} for link in scraped.follow]
    return {**asdict(scraped), "follow": follow}


async def _sample(site: Site) -> Sample:
    sample = await site.sampler.fresh()
    if sample.trouble:
        raise Refused(503, "QueueUnavailable", sample.trouble)
    return sample
