"""The overview, and the list of all runs."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.model import Run
from shoal.fleet.status.at_work import has_workers
from shoal.fleet.status.overview import MAX_RUNS
from shoal.fleet.status.progress import Snapshot, snapshot_of
from shoal.web.context import context_of
from shoal.web.pages.runs import command_line, page_links
from shoal.web.views.models import overview_data, overview_title
from shoal.web.views.paging import as_async, scan_page
from shoal.web.views.render import queue_timeout, render_page

router = APIRouter()
RUNS_PER_PAGE = 25


@router.get("/")
async def overview(request: Request) -> Response:
    """Show a summary of the whole queue."""
    context = context_of(request)
    sample = await context.sampler.fresh_sample()
    return await render_page(
        request,
        "overview.html",
        title=overview_title(sample.overview),
        heading="Overview",
        command=command_line("top"),
        sample=sample,
        live="/live",
        more_runs=len(sample.overview.runs) >= MAX_RUNS,
        **overview_data(context.sampler, sample),
    )


@router.get("/runs")
async def runs(request: Request, after: str | None = None) -> Response:
    """List all runs, newest first."""
    context = context_of(request)
    async with queue_timeout(context):
        sample = await context.sampler.fresh_sample()
        found = await scan_page(
            as_async(await context.app.queue.runs()), lambda run: run.id, limit=RUNS_PER_PAGE, after=after
        )
        snapshots = [sample.snapshot(run.id) or await _snapshot(request, run) for run in found.rows]
    return await render_page(
        request,
        "runs.html",
        title="Runs",
        command=command_line("runs"),
        sample=sample,
        runs=snapshots,
        **page_links(request, found.next, {}),
    )


async def _snapshot(request: Request, run: Run) -> Snapshot:
    queue = context_of(request).app.queue
    at_work = await has_workers(queue, run.id)
    return await snapshot_of(queue, run, await queue.stats(run.id), at_work=at_work)
