"""The page of one run, with its tabs, steps and buttons."""

import asyncio
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors.commands import shoal_command
from shoal.core.values import counted, read_typed
from shoal.fleet.run.change import list_settings
from shoal.fleet.status.progress import Snapshot, snapshot_of, with_details
from shoal.web.actions import SETTINGS
from shoal.web.api.params import Operator, RunId
from shoal.web.context import WebContext, context_of
from shoal.web.errors import path_of
from shoal.web.sampler import Sample
from shoal.web.views.form import form_field, read_form
from shoal.web.views.models import run_data, run_title
from shoal.web.views.paging import take
from shoal.web.views.render import queue_timeout, redirect_after, render_confirm, render_page, root_of
from shoal.worker.count_notes import LOST

TABS = (
    ("Run", ""),
    ("Items", "/items"),
    ("Rejects", "/rejects"),
    ("Dead letters", "/dead"),
    ("Tasks", "/tasks"),
    ("Proxies", "/proxies"),
    ("Tokens", "/tokens"),
)


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


def run_tab_data(run_id: str, tab: str, snapshot: Snapshot) -> dict[str, Any]:
    """Return what every tab of a run shows."""
    base, stats = path_of_run(run_id), snapshot.stats
    counts = {
        "Items": stats.items,
        "Rejects": stats.rejected,
        "Dead letters": stats.dead,
        "Tasks": stats.tasks,
    }
    return {
        "run_id": run_id,
        "tab": tab,
        "tabs": [(name, f"{base}{path}", counts.get(name)) for name, path in TABS],
        "steps": sorted(snapshot.stats.steps),
    }


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


router = APIRouter()
MAX_HOSTS = 15
MAX_REASONS = 15  # why links were not followed


@router.get("/runs/{run_id}")
async def run(request: Request, run_id: RunId) -> Response:
    """Show the progress of a run."""
    context = context_of(request)
    sample, snapshot = await load_run(request, run_id)
    async with queue_timeout(context):
        # A list of hosts would wait for the server that is away.
        is_partial = bool(snapshot.stats.unreachable)
        hosts = [] if is_partial else await take(context.app.queue.hosts(run_id), MAX_HOSTS + 1)
        report = await with_details(context.app.queue, snapshot)
        settings = await list_settings(context.app.queue, run_id)
        servers = await context.app.queue.servers(run_id)
        await load_names(context)
        data = await run_data(context, sample, snapshot)
    return await render_page(
        request,
        "run.html",
        title=run_title(snapshot),
        heading=snapshot.run.scraper,
        command=command_line("watch", run_id),
        sample=sample,
        live=f"/live{path_of_run(run_id)}",
        hosts=hosts[:MAX_HOSTS],
        more_hosts=len(hosts) > MAX_HOSTS,
        not_followed=list(report.not_followed.items())[:MAX_REASONS],
        missing=report.missing,
        files=report.files,
        hooks=report.hooks,
        servers=servers,
        lost=LOST if report.lost_counts else "",
        settings=settings,
        web_settings=SETTINGS,
        **(run_tab_data(run_id, "Run", snapshot) | data),
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


@router.post("/runs/{run_id}/settings")
async def change_settings(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Change one setting of a run while it runs."""
    form = await read_form(request)
    key, text = form_field(form, "setting"), form_field(form, "value").strip()
    value = read_typed(text)
    if key in ("scope", "skip") and isinstance(value, str) and " " in value:
        value = value.split()
    await actions.change_settings(run_id, {key: value})
    return redirect_after(request, path_of_run(run_id), "set")


@router.get("/runs/{run_id}/cancel")
async def confirm_cancel(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Ask for confirmation before a run is cancelled."""
    sample, snapshot = await load_run(request, run_id)
    run_path = f"{root_of(request)}{path_of_run(run_id)}"
    return await render_confirm(
        request,
        title=f"Cancel {run_id}",
        command=command_line("cancel", run_id),
        sample=sample,
        question=f"Cancel this run of {snapshot.run.scraper}?",
        consequence=f"{counted(snapshot.stats.remaining, 'remaining task')} will not be processed. "
        "Items are kept.",
        verb="Cancel run",
        action=f"{run_path}/cancel",
        back=run_path,
    )


@router.post("/runs/{run_id}/cancel")
async def cancel(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Cancel a run permanently."""
    await actions.cancel(run_id)
    return redirect_after(request, path_of_run(run_id), "cancelled")
