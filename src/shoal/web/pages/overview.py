"""The overview, and the list of all runs."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.model import Run
from shoal.fleet.overview import MOST_RUNS
from shoal.fleet.progress import Snapshot
from shoal.web.facts import overview_facts, overview_title
from shoal.web.frame import answering, page
from shoal.web.pages.runpage import links
from shoal.web.paging import each
from shoal.web.paging import page as page_of
from shoal.web.site import site_of

router = APIRouter()
RUNS_ON_A_PAGE = 25


@router.get("/")
async def overview(request: Request) -> Response:
    """Show everything in the queue at one glance."""
    site = site_of(request)
    sample = await site.sampler.fresh()
    return await page(
        request,
        "overview.html",
        title=overview_title(sample.overview),
        heading="Overview",
        command="shoal top",
        sample=sample,
        live="/live",
        more_runs=len(sample.overview.runs) >= MOST_RUNS,
        **overview_facts(site.sampler, sample),
    )


@router.get("/runs")
async def runs(request: Request, after: str | None = None) -> Response:
    """List all runs, the newest first."""
    site = site_of(request)
    async with answering(site):
        sample = await site.sampler.fresh()
        found = await page_of(
            each(await site.app.queue.runs()), lambda run: run.id, limit=RUNS_ON_A_PAGE, after=after
        )
        shown = [sample.snapshot(run.id) or await _snapshot(request, run) for run in found.rows]
    return await page(
        request,
        "runs.html",
        title="Runs",
        command="shoal runs",
        sample=sample,
        runs=shown,
        **links(request, found.next, {}),
    )


async def _snapshot(request: Request, run: Run) -> Snapshot:
    return Snapshot(run, await site_of(request).app.queue.stats(run.id), 0, 0.0, None)
