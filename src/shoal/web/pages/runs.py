"""The page of one run, and its buttons."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.web import deeds
from shoal.web.api.params import Operator, RunId
from shoal.web.facts import run_facts, run_title
from shoal.web.frame import answering, back_to, page, root_of
from shoal.web.pages.runpage import frame_of, path_of_run, seen
from shoal.web.paging import taken
from shoal.web.site import site_of
from shoal.worker.not_followed import links_not_followed

router = APIRouter()
MOST_HOSTS = 15
MOST_REASONS = 15  # for which links were not followed


@router.get("/runs/{run_id}")
async def run(request: Request, run_id: RunId) -> Response:
    """Show how a run is getting on."""
    site = site_of(request)
    sample, one = await seen(request, run_id)
    async with answering(site):
        hosts = await taken(site.app.queue.hosts(run_id), MOST_HOSTS + 1)
        links = await links_not_followed(site.app.queue, run_id)
    return await page(
        request,
        "run.html",
        title=run_title(one),
        heading=one.run.scraper,
        command=f"shoal watch {run_id}",
        sample=sample,
        live=f"/live{path_of_run(run_id)}",
        hosts=hosts[:MOST_HOSTS],
        more_hosts=len(hosts) > MOST_HOSTS,
        not_followed=list(links.items())[:MOST_REASONS],
        **(frame_of(run_id, "Run", one) | run_facts(sample, one)),
    )


@router.post("/runs/{run_id}/pause")
async def pause(request: Request, run_id: RunId, guest: Operator) -> Response:
    """Hand out no task of a run until it is resumed."""
    await deeds.pause(site_of(request), guest, run_id)
    return back_to(request, path_of_run(run_id), "paused")


@router.post("/runs/{run_id}/resume")
async def resume(request: Request, run_id: RunId, guest: Operator) -> Response:
    """Let a paused run go on."""
    await deeds.resume(site_of(request), guest, run_id)
    return back_to(request, path_of_run(run_id), "resumed")


@router.get("/runs/{run_id}/cancel")
async def ask_cancel(request: Request, run_id: RunId, guest: Operator) -> Response:
    """Ask whether a run is to be ended for good."""
    sample, one = await seen(request, run_id)
    home = f"{root_of(request)}{path_of_run(run_id)}"
    return await page(
        request,
        "confirm.html",
        title=f"Cancel {run_id}",
        command=f"shoal cancel {run_id}",
        sample=sample,
        question=f"Cancel this run of {one.run.scraper}?",
        consequence=f"{one.stats.remaining:,} tasks that are left will never be handed out. Its items stay.",
        can_do=True,
        is_grave=True,
        verb="Cancel the run",
        action=f"{home}/cancel",
        fields=[],
        back=home,
    )


@router.post("/runs/{run_id}/cancel")
async def cancel(request: Request, run_id: RunId, guest: Operator) -> Response:
    """End a run for good."""
    await deeds.cancel(site_of(request), guest, run_id)
    return back_to(request, path_of_run(run_id), "cancelled")
