"""Runs: list, show, start, enqueue, pause, resume, change, cancel, purge one or the old ones."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from shoal.core.model import Run
from shoal.fleet.run.judgement import compare_runs, profile_of
from shoal.fleet.run.retention import PurgeReport
from shoal.fleet.run.settings import list_settings
from shoal.fleet.status.at_work import runs_at_work
from shoal.fleet.status.progress import ProgressReader, Snapshot, read_run_row, with_details
from shoal.fleet.status.quality import ComparisonReport, ProfileReport, TrendRow, profile_report, trend_of
from shoal.fleet.status.rows.runs import RunReport, RunRow, RunStateRow
from shoal.web.actions import Operator
from shoal.web.api.responses import (
    AcceptResponse,
    EnqueueResponse,
    LocalWorkersResponse,
    PurgeResponse,
    SettingsResponse,
    StoppedWorkersResponse,
)
from shoal.web.requests import (
    LIMIT,
    After,
    Context,
    EnqueueBody,
    Limit,
    PurgeBody,
    RunId,
    SettingsBody,
    StartRunBody,
    WorkersBody,
)
from shoal.web.views.paging import ListPage, as_async, scan_page

router = APIRouter(tags=["runs"])
Earlier = Annotated[str, Query(max_length=500, description="The id of the earlier run")]


@router.get("/runs")
async def runs(context: Context, limit: Limit = LIMIT, after: After = None) -> ListPage[RunRow]:
    """List the runs, newest first."""
    queue = context.app.queue
    found = await scan_page(as_async(await queue.runs()), lambda run: run.id, limit=limit, after=after)
    busy = await runs_at_work(queue)
    rows = [await read_run_row(queue, run, at_work=run.id in busy) for run in found.rows]
    return ListPage(rows, found.next)


@router.get("/runs/{run_id}")
async def run(context: Context, run_id: RunId) -> RunReport:
    """Show the status of a run, as `shoal status RUN --json` does."""
    seen = (await context.sampler.fresh_sample(run_id)).snapshot(run_id)
    snapshot = seen or await ProgressReader(context.app.queue, run_id, with_hosts=False).read()
    queue = context.app.queue
    report = await with_details(queue, snapshot)
    return RunReport.of(report.row(), store=await queue.size())


@router.post("/runs", response_model=EnqueueResponse, status_code=201)
async def start(actions: Operator, body: StartRunBody) -> dict[str, Any]:
    """Start a run of a project scraper and enqueue its tasks; an existing run id is continued.

    `workers` start on the server's machine when the tasks are queued.
    """
    return await actions.start(body)


@router.post("/runs/{run_id}/enqueue", response_model=EnqueueResponse)
async def enqueue(actions: Operator, run_id: RunId, body: EnqueueBody) -> dict[str, Any]:
    """Add URLs and tasks to a run; tasks that are already in it are not added again."""
    return await actions.enqueue(run_id, body)


@router.post("/runs/{run_id}/workers")
async def start_workers(actions: Operator, run_id: RunId, body: WorkersBody) -> LocalWorkersResponse:
    """Start workers on the server's machine; they end with the run's tasks, or with the server."""
    return LocalWorkersResponse(run_id, await actions.start_workers(run_id, body))


@router.delete("/runs/{run_id}/workers")
async def stop_workers(actions: Operator, run_id: RunId) -> StoppedWorkersResponse:
    """Let the workers of a run on the server's machine finish their running tasks, and end."""
    return StoppedWorkersResponse(run_id, await actions.stop_workers(run_id))


@router.post("/runs/{run_id}/pause")
async def pause(actions: Operator, run_id: RunId) -> RunStateRow:
    """Stop handing out tasks of a run until it is resumed."""
    return await _state_row(actions, await actions.pause(run_id))


@router.post("/runs/{run_id}/resume")
async def resume(actions: Operator, run_id: RunId) -> RunStateRow:
    """Resume a run that was paused or that ended at a limit."""
    return await _state_row(actions, await actions.resume(run_id))


@router.post("/runs/{run_id}/cancel")
async def cancel(actions: Operator, run_id: RunId) -> RunStateRow:
    """Cancel a run permanently; nothing is deleted."""
    return await _state_row(actions, await actions.cancel(run_id))


@router.get("/runs/{run_id}/profile")
async def profile(context: Context, run_id: RunId) -> ProfileReport:
    """Show how much of each field of a run's items is filled, and with what."""
    queue = context.app.queue
    return profile_report(await profile_of(queue, await queue.run(run_id)))


@router.get("/runs/{run_id}/compare")
async def compare(context: Context, run_id: RunId, before: Earlier) -> ComparisonReport:
    """Show the fields of a run beside those of an earlier one, and what has changed."""
    queue = context.app.queue
    return await compare_runs(queue, before, await queue.run(run_id))


@router.get("/runs/{run_id}/trend")
async def trend(context: Context, run_id: RunId) -> list[TrendRow]:
    """List the last runs of the run's scraper with their outcomes, the oldest first."""
    queue = context.app.queue
    return await trend_of(queue, (await queue.run(run_id)).scraper)


@router.post("/runs/{run_id}/accept")
async def accept(actions: Operator, run_id: RunId, *, undo: bool = False) -> AcceptResponse:
    """Declare the items of a run right: later runs are compared with it, and with no earlier one."""
    await actions.accept(run_id, undo=undo)
    return AcceptResponse(run_id, accepted=not undo)


@router.get("/runs/{run_id}/settings")
async def settings(context: Context, run_id: RunId) -> SettingsResponse:
    """List the settings of a run, and when each may be changed."""
    return SettingsResponse(run_id, await list_settings(context.app.queue, run_id))


@router.patch("/runs/{run_id}/settings")
async def change_settings(actions: Operator, run_id: RunId, body: SettingsBody) -> SettingsResponse:
    """Change settings of a run while it runs; its workers follow within two seconds."""
    return SettingsResponse(run_id, await actions.change_settings(run_id, body.settings))


@router.delete("/runs/{run_id}")
async def purge(actions: Operator, run_id: RunId) -> PurgeResponse:
    """Delete a run with all its tasks, items and dead letters."""
    await actions.purge(run_id)
    return PurgeResponse(run_id, purged=True)


@router.post("/purge")
async def purge_old(actions: Operator, body: PurgeBody) -> PurgeReport:
    """Delete old runs, or report which would be deleted."""
    return await actions.purge_old(body.rule(), dry_run=body.dry_run)


async def _state_row(actions: Operator, run: Run) -> RunStateRow:
    """Return the state of a run as every report says it: stored is no state of a finished run."""
    stats = await actions.context.app.queue.stats(run.id)
    return RunStateRow(run_id=run.id, state=Snapshot(run, stats, 0, 0.0, None).state)
