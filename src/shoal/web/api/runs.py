"""Runs: list, look, start, fill, steer, purge."""

from dataclasses import replace
from typing import Any

from fastapi import APIRouter

from shoal.fleet.progress import Progress
from shoal.fleet.rows import run_row
from shoal.web import deeds
from shoal.web.api import receipts, schema
from shoal.web.api.params import LIMIT, After, Limit, Operator, RunId, TheSite
from shoal.web.api.wishes import EnqueueWish, StartWish
from shoal.web.paging import each, page
from shoal.worker.not_followed import links_not_followed

router = APIRouter(tags=["runs"])


@router.get("/runs", response_model=schema.Listed[schema.RunRow])
async def runs(site: TheSite, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List the runs, the newest first."""
    queue = site.app.queue
    found = await page(each(await queue.runs()), lambda run: run.id, limit=limit, after=after)
    return {"rows": [run_row(run, await queue.stats(run.id)) for run in found.rows], "next": found.next}


@router.get("/runs/{run_id}", response_model=schema.RunStatus)
async def run(site: TheSite, run_id: RunId) -> dict[str, Any]:
    """Show how a run is, as `shoal status RUN --json` does."""
    seen = (await site.sampler.fresh(run_id)).snapshot(run_id)
    snapshot = seen or await Progress(site.app.queue, run_id).look()
    links = await links_not_followed(site.app.queue, run_id)
    return replace(snapshot, not_followed=links).as_json()


@router.post("/runs", response_model=receipts.Queued, status_code=201)
async def start(site: TheSite, guest: Operator, wish: StartWish) -> dict[str, Any]:
    """Make a run of a scraper of the project and fill it; a run id that exists is gone on with."""
    return await deeds.start(
        site,
        guest,
        wish.scraper,
        urls=wish.urls,
        tasks=[task.task() for task in wish.tasks],
        settings=wish.settings,
        run_id=wish.run_id,
        invalid=wish.invalid,
    )


@router.post("/runs/{run_id}/enqueue", response_model=receipts.Queued)
async def enqueue(site: TheSite, guest: Operator, run_id: RunId, wish: EnqueueWish) -> dict[str, Any]:
    """Add URLs and tasks to a run; what has entered before is not entered again."""
    tasks = [task.task() for task in wish.tasks]
    return await deeds.enqueue(site, guest, run_id, urls=wish.urls, tasks=tasks, invalid=wish.invalid)


@router.post("/runs/{run_id}/pause", response_model=receipts.Steered)
async def pause(site: TheSite, guest: Operator, run_id: RunId) -> dict[str, Any]:
    """Hand out no task of a run until it is resumed."""
    run = await deeds.pause(site, guest, run_id)
    return {"run_id": run.id, "state": run.state}


@router.post("/runs/{run_id}/resume", response_model=receipts.Steered)
async def resume(site: TheSite, guest: Operator, run_id: RunId) -> dict[str, Any]:
    """Let a run go on that was paused, or that ended at a limit."""
    run = await deeds.resume(site, guest, run_id)
    return {"run_id": run.id, "state": run.state}


@router.post("/runs/{run_id}/cancel", response_model=receipts.Steered)
async def cancel(site: TheSite, guest: Operator, run_id: RunId) -> dict[str, Any]:
    """End a run for good; nothing is deleted."""
    run = await deeds.cancel(site, guest, run_id)
    return {"run_id": run.id, "state": run.state}


@router.delete("/runs/{run_id}", response_model=receipts.Purged)
async def purge(site: TheSite, guest: Operator, run_id: RunId) -> dict[str, Any]:
    """Delete a run with all its tasks, items and dead letters."""
    await deeds.purge(site, guest, run_id)
    return {"run_id": run_id, "purged": True}
