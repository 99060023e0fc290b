"""The overview, the list of runs, the page of one with its tabs and buttons, and the workers it has here."""

import asyncio
import shlex
from collections.abc import Collection, Mapping
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.commands import shoal_command
from shoal.core.model import Run
from shoal.core.values import counted, read_typed, read_whole, split_words
from shoal.fleet.run.settings import list_settings
from shoal.fleet.status.at_work import has_workers
from shoal.fleet.status.changes import has_changes
from shoal.fleet.status.overview import MAX_RUNS
from shoal.fleet.status.progress import Snapshot, snapshot_of
from shoal.fleet.status.proxies import proxies
from shoal.fleet.status.tokens import tokens
from shoal.fleet.status.tor import tors
from shoal.scrape.settings.scraper import SETTINGS
from shoal.web.actions import WEB_SETTINGS, Operator, check_workers
from shoal.web.context import WebContext, context_of
from shoal.web.errors import path_of
from shoal.web.requests import MAX_STARTED, RunId, WorkersBody
from shoal.web.sampler import Sample
from shoal.web.views.form import form_field, read_form
from shoal.web.views.models import (
    overview_data,
    overview_title,
    quality_data,
    run_data,
    run_title,
    worker_command,
)
from shoal.web.views.paging import as_async, scan_page
from shoal.web.views.render import queue_timeout, redirect_after, render_confirm, render_page, root_of

router = APIRouter()
TABS = (
    ("Run", ""),
    ("Items", "/items"),
    ("Rejects", "/rejects"),
    ("Changes", "/changes"),
    ("Dead letters", "/dead"),
    ("Tasks", "/tasks"),
    ("Proxies", "/proxies"),
    ("Tor", "/tor"),
    ("Tokens", "/tokens"),
)
RUNS_PER_PAGE = 25
STOP_HERE = (
    "They finish their running tasks first. The other tasks stay in the queue, and workers elsewhere "
    "continue. To stop those too, pause the run."
)
NONE_HERE = "Workers that run elsewhere are stopped there, or all at once by pausing the run."
Count = Annotated[int, Query(ge=1, le=MAX_STARTED)]
Names = Annotated[str, Query(max_length=10_000)]  # separated by commas


def path_of_run(run_id: str) -> str:
    """Return the path of a run's page, without the root."""
    return f"/runs/{quote(run_id, safe='')}"


def command_line(*words: str, **options: str) -> str:
    """Return a command on this queue; its values may come from a hostile site, so they are quoted."""
    chosen = [word for name, value in options.items() if value for word in (f"--{name}", value)]
    return shoal_command(shlex.join([*words, *chosen]))


async def load_run(request: Request, run_id: str) -> tuple[Sample, Snapshot]:
    """Return a fresh sample and the snapshot of the run; raises UnknownRun or QueueUnavailable."""
    context = context_of(request)
    async with queue_timeout(context):
        sample = await context.sampler.fresh_sample(run_id)
        # If the queue did not respond, query it again, so that the error says why.
        queue = context.app.queue
        snapshot = sample.snapshot(run_id) or await snapshot_of(
            queue, await queue.run(run_id), await queue.stats(run_id)
        )
    return sample, snapshot


async def tabs_of(context: WebContext, run_id: str) -> list[str]:
    """Return the names of the tabs of a run: changes, proxies, Tor and tokens only if it has some."""
    queue = context.app.queue
    found = {
        "Changes": await has_changes(queue, await queue.run(run_id)),
        "Proxies": await proxies(queue, run_id),
        "Tor": await tors(queue, run_id),
        "Tokens": await tokens(queue, run_id),
    }
    return [name for name, _ in TABS if found.get(name, True)]


def run_tab_data(tab: str, tabs: Collection[str], snapshot: Snapshot) -> dict[str, Any]:
    """Return what every tab of a run shows; `tabs` are the others that it has."""
    run_id, stats = snapshot.run.id, snapshot.stats
    base = path_of_run(run_id)
    counts = {
        "Items": stats.items,
        "Rejects": stats.rejected,
        "Dead letters": stats.dead,
        "Tasks": stats.tasks,
    }
    return {
        "heading": snapshot.run.scraper,
        "run_id": run_id,
        "tab": tab,
        "tabs": [
            (name, f"{base}{path}", counts.get(name)) for name, path in TABS if name in tabs or name == tab
        ],
        "steps": sorted(snapshot.stats.steps),
    }


async def render_tab(
    request: Request, template: str, tab: str, seen: tuple[Sample, Snapshot], *, subject: str, **values: Any
) -> Response:
    """Render a page of a run; `subject` is what its title names first."""
    sample, snapshot = seen
    async with queue_timeout(context_of(request)):
        tabs = await tabs_of(context_of(request), snapshot.run.id)
    data = run_tab_data(tab, tabs, snapshot) | values
    return await render_page(
        request, template, title=f"{subject} · {snapshot.run.scraper}", sample=sample, **data
    )


async def load_names(context: WebContext) -> None:
    """Load the scrapers whose files have changed, so that `worker_command` can name them."""
    await asyncio.to_thread(context.scraper_rows.all)


def page_links(request: Request, after: str | None, given: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the URLs of the first and the next page of a list, with the same filter."""
    here = f"{root_of(request)}{path_of(request.scope)}"
    filters = {name: value for name, value in given.items() if value}
    is_first = "after" not in request.query_params
    return {
        "first": None if is_first else f"{here}?{urlencode(filters)}",
        "next": f"{here}?{urlencode({**filters, 'after': after})}" if after else None,
        "here_path": here,
    }


@router.get("/runs/{run_id}")
async def run(request: Request, run_id: RunId) -> Response:
    """Show the progress of a run."""
    context = context_of(request)
    sample, snapshot = await load_run(request, run_id)
    async with queue_timeout(context):
        settings = await list_settings(context.app.queue, run_id)
        await load_names(context)
        data = await run_data(context, sample, snapshot)
        tabs = await tabs_of(context, run_id)
        quality = await quality_data(context, snapshot)
    return await render_page(
        request,
        "run.html",
        title=run_title(snapshot),
        command=command_line("watch", run_id),
        sample=sample,
        live=f"/live{path_of_run(run_id)}",
        settings=settings,
        web_settings=WEB_SETTINGS,
        **(run_tab_data("Run", tabs, snapshot) | data | quality),
    )


@router.post("/runs/{run_id}/pause")
async def pause(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Stop handing out tasks of a run until it is resumed."""
    await actions.pause(run_id)
    return redirect_after(request, path_of_run(run_id), "paused")


@router.post("/runs/{run_id}/resume")
async def resume(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Resume a paused run."""
    await actions.resume(run_id)
    return redirect_after(request, path_of_run(run_id), "resumed")


@router.post("/runs/{run_id}/accept")
async def accept(request: Request, run_id: RunId, actions: Operator, *, undo: bool = False) -> Response:
    """Declare the items of a run right, or take that back."""
    await actions.accept(run_id, undo=undo)
    return redirect_after(request, path_of_run(run_id), "not accepted" if undo else "accepted")


@router.post("/runs/{run_id}/settings")
async def change_settings(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Change one setting of a run while it runs."""
    form = await read_form(request)
    key, text = form_field(form, "setting"), form_field(form, "value").strip()
    value = read_typed(text)
    if isinstance(value, str) and " " in value and key in SETTINGS and SETTINGS[key].several:
        value = value.split()
    await actions.change_settings(run_id, {key: value})
    return redirect_after(request, path_of_run(run_id), "set")


@router.get("/runs/{run_id}/cancel")
async def confirm_cancel(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Ask for confirmation before a run is cancelled."""
    sample, snapshot = await load_run(request, run_id)
    return await render_confirm(
        request,
        title=f"Cancel {run_id}",
        command=command_line("cancel", run_id),
        sample=sample,
        question=f"Cancel this run of {snapshot.run.scraper}?",
        consequence=f"{counted(snapshot.stats.remaining, 'remaining task')} will not be processed. "
        "Items are kept.",
        verb="Cancel run",
        action=f"{path_of_run(run_id)}/cancel",
        back=path_of_run(run_id),
    )


@router.post("/runs/{run_id}/cancel")
async def cancel(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Cancel a run permanently."""
    await actions.cancel(run_id)
    return redirect_after(request, path_of_run(run_id), "cancelled")


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
        **overview_data(sample),
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


@router.get("/runs/{run_id}/start-workers")
async def confirm_start(
    request: Request,
    run_id: RunId,
    actions: Operator,
    workers: Count = 1,
    steps: Names = "",
    partitions: Names = "",
) -> Response:
    """Ask for confirmation before workers start on the server's machine."""
    context = context_of(request)
    sample, snapshot = await load_run(request, run_id)
    check_workers(context, workers)
    await load_names(context)
    limits = {"steps": split_words(steps), "partitions": split_words(partitions)}
    command = await worker_command(context, snapshot, **limits)
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
        action=f"{path_of_run(run_id)}/start-workers",
        fields=[("workers", str(workers)), ("steps", steps), ("partitions", partitions)],
        back=path_of_run(run_id),
    )


@router.post("/runs/{run_id}/start-workers")
async def start(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Start workers on the server's machine."""
    form = await read_form(request)
    workers = read_whole("workers", form_field(form, "workers"), least=1, most=MAX_STARTED)
    limits = {name: split_words(form_field(form, name)) for name in ("steps", "partitions")}
    await actions.start_workers(run_id, WorkersBody(workers=workers, **limits))
    return redirect_after(request, path_of_run(run_id), "workers", count=workers)


@router.get("/runs/{run_id}/stop-workers")
async def confirm_stop(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Ask for confirmation before the workers on the server's machine are stopped."""
    sample, snapshot = await load_run(request, run_id)
    here = context_of(request).app.local_workers.count(run_id)
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
        action=f"{path_of_run(run_id)}/stop-workers",
        back=path_of_run(run_id),
    )


@router.post("/runs/{run_id}/stop-workers")
async def stop(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Let the workers on the server's machine finish their running tasks and end."""
    stopped = await actions.stop_workers(run_id)
    return redirect_after(request, path_of_run(run_id), "stopping", count=stopped)
