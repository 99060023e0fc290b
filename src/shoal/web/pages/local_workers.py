"""Workers that the server runs on its own machine: start some for a run, and stop them."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors import InvalidSetting
from shoal.core.values import counted
from shoal.web.actions import check_workers
from shoal.web.api.params import Operator, RunId
from shoal.web.context import context_of
from shoal.web.pages.runs import command_line, load_names, load_run, path_of_run
from shoal.web.views.form import form_field, read_form
from shoal.web.views.models import worker_command
from shoal.web.views.render import redirect_after, render_confirm, root_of

router = APIRouter()
MAX_STARTED = 1_000
STOP_HERE = (
    "They finish their running tasks first. The other tasks stay in the queue, and workers elsewhere "
    "continue. To stop those too, pause the run."
)
NONE_HERE = "Workers that run elsewhere are stopped there, or all at once by pausing the run."
Count = Annotated[int, Query(ge=1, le=MAX_STARTED)]


@router.get("/runs/{run_id}/start-workers")
async def confirm_start(request: Request, run_id: RunId, actions: Operator, workers: Count = 1) -> Response:
    """Ask for confirmation before workers start on the server's machine."""
    context = context_of(request)
    sample, snapshot = await load_run(request, run_id)
    check_workers(context, workers)
    run_path = f"{root_of(request)}{path_of_run(run_id)}"
    await load_names(context)
    command = await worker_command(context, snapshot)
    words = counted(workers, "worker")
    return await render_confirm(
        request,
        title=f"Start workers for {snapshot.run.scraper}",
        command=f"{command} --workers {workers}" if command else "",
        sample=sample,
        question=f"Start {words} on this machine?",
        consequence=f"{counted(snapshot.stats.remaining, 'task')} left. The workers end when the tasks "
        "are done, when you stop them, or when this server stops; what is left then stays in the queue.",
        is_destructive=False,
        verb=f"Start {words}",
        action=f"{run_path}/start-workers",
        fields=[("workers", str(workers))],
        back=run_path,
    )


@router.post("/runs/{run_id}/start-workers")
async def start(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Start workers on the server's machine."""
    given = form_field(await read_form(request), "workers")
    if not given.isdecimal() or not 1 <= int(given[:6]) <= MAX_STARTED:
        raise InvalidSetting(
            "workers", f"must be a whole number from 1 to {MAX_STARTED:,}, got {given[:20]!r}"
        )
    await actions.start_workers(run_id, int(given))
    return redirect_after(request, path_of_run(run_id), "workers", count=int(given))


@router.get("/runs/{run_id}/stop-workers")
async def confirm_stop(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Ask for confirmation before the workers on the server's machine are stopped."""
    sample, snapshot = await load_run(request, run_id)
    here = context_of(request).app.local_workers.count(run_id)
    run_path = f"{root_of(request)}{path_of_run(run_id)}"
    words = counted(here, "worker")
    return await render_confirm(
        request,
        title=f"Stop workers of {snapshot.run.scraper}",
        command=command_line("pause", run_id),
        sample=sample,
        question=f"Stop {words} on this machine?" if here else "This server runs no workers for this run.",
        consequence=STOP_HERE if here else NONE_HERE,
        can_do=bool(here),
        verb=f"Stop {words}",
        action=f"{run_path}/stop-workers",
        back=run_path,
    )


@router.post("/runs/{run_id}/stop-workers")
async def stop(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Let the workers on the server's machine finish their running tasks and end."""
    stopped = await actions.stop_workers(run_id)
    return redirect_after(request, path_of_run(run_id), "stopping", count=stopped)
