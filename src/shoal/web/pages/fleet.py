"""Pages that span all runs: workers, hosts and the audit log."""

from datetime import timedelta

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors import InvalidSetting
from shoal.core.model import WorkerState
from shoal.core.values import read_duration
from shoal.fleet.status.at_work import RECENT
from shoal.fleet.status.cache import cache_status
from shoal.fleet.status.overview import worker_row
from shoal.web.actions import Operator
from shoal.web.audit import read_actions
from shoal.web.context import context_of
from shoal.web.pages.runs import command_line, page_links
from shoal.web.requests import MAX_PAUSE, HostBody, Text
from shoal.web.views.form import body_of, form_field, read_form
from shoal.web.views.paging import as_async, cursor_page, scan_page
from shoal.web.views.render import queue_timeout, redirect_after, render_page

router = APIRouter()
ROWS = 50


@router.get("/workers")
async def workers(request: Request, run: Text = "", after: str | None = None) -> Response:
    """List the workers of the last minute and those that hold tasks, the latest heartbeat first."""
    async with queue_timeout(context_of(request)):
        listed = await context_of(request).app.queue.workers(run or None)
    recent = (worker for worker in listed if worker.last_beat <= RECENT or worker.leased)
    ordered = sorted(recent, key=lambda worker: (worker.last_beat, worker.worker_id))
    found = await scan_page(as_async(ordered), lambda worker: worker.worker_id, limit=ROWS, after=after)
    rows = [worker_row(worker) for worker in found.rows]
    return await render_page(
        request,
        "workers.html",
        title="Workers",
        command=command_line("workers", run=run),
        workers=rows,
        with_run=True,
        no_workers="No workers yet.",
        is_any_late=any(row.state == WorkerState.LATE for row in rows),
        **page_links(request, found.next, {"run": run}),
    )


@router.get("/hosts")
async def hosts(request: Request, run: Text = "", host: Text = "", after: str | None = None) -> Response:
    """List the hosts with their gaps, pauses and remaining tasks."""
    async with queue_timeout(context_of(request)):
        found = await cursor_page(context_of(request).app.queue.hosts(run or None, after=after or None), ROWS)
        cache = await cache_status(context_of(request).app.queue, run or None)
    return await render_page(
        request,
        "hosts.html",
        title="Hosts",
        command=command_line("hosts", run=run),
        hosts=found.rows,
        cache=cache,
        chosen=host,
        max_seconds=int(MAX_PAUSE.total_seconds()),
        **page_links(request, found.next, {"run": run}),
    )


@router.post("/hosts")
async def change_host(request: Request, actions: Operator) -> Response:
    """Pause a host, or set the minimum gap between request starts on it."""
    form = await read_form(request)
    host, typed = form_field(form, "host").strip(), read_duration("seconds", form_field(form, "seconds"))
    if not host:
        raise InvalidSetting("host", "is required")
    duration = timedelta(seconds=body_of(HostBody, seconds=typed.total_seconds()).seconds)
    if form_field(form, "action") == "slow":
        await actions.slow_host(host, duration)
    else:
        await actions.pause_host(host, duration)
    return redirect_after(request, "/hosts", "host")


@router.get("/actions")
async def audit_log(request: Request, after: str | None = None) -> Response:
    """List the actions taken through the pages and the API, newest first."""
    async with queue_timeout(context_of(request)):
        listed = await read_actions(context_of(request).app.queue)
    found = await scan_page(as_async(listed), lambda action: action.id, limit=ROWS, after=after)
    return await render_page(
        request, "audit_log.html", title="Actions", actions=found.rows, **page_links(request, found.next, {})
    )
