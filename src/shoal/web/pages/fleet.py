"""What all runs share: workers and hosts; and who did what."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors import InvalidSetting
from shoal.fleet.overview import worker_row
from shoal.fleet.staleness import LATE
from shoal.web import deeds
from shoal.web.actions import actions as actions_of
from shoal.web.api.params import Label, Operator
from shoal.web.form import one_of, read_form
from shoal.web.frame import answering, back_to, page
from shoal.web.pages.runpage import links, typed
from shoal.web.paging import each, placed
from shoal.web.paging import page as page_of
from shoal.web.site import site_of

router = APIRouter()
ROWS = 50
Text = Annotated[Label, Query()]
LONGEST = 86_400.0  # seconds that a page pauses or slows a host


@router.get("/workers")
async def workers(request: Request, run: Text = "", after: str | None = None) -> Response:
    """List the workers, those heard last first."""
    async with answering(site_of(request)):
        listed = await site_of(request).app.queue.workers(run or None)
    ordered = sorted(listed, key=lambda worker: (worker.last_beat, worker.worker_id))
    found = await page_of(each(ordered), lambda worker: worker.worker_id, limit=ROWS, after=after)
    rows = [worker_row(worker) for worker in found.rows]
    return await page(
        request,
        "workers.html",
        title="Workers",
        command=typed("shoal", "workers", run=run),
        workers=rows,
        with_run=True,
        no_workers="No worker has been seen.",
        is_any_late=any(row["state"] == LATE for row in rows),
        **links(request, found.next, {"run": run}),
    )


@router.get("/hosts")
async def hosts(request: Request, run: Text = "", host: Text = "", after: str | None = None) -> Response:
    """List the hosts, how they are treated and what is left to ask of them."""
    async with answering(site_of(request)):
        found = await placed(site_of(request).app.queue.hosts(run or None, after=after or None), ROWS)
    return await page(
        request,
        "hosts.html",
        title="Hosts",
        command=typed("shoal", "hosts", run=run),
        hosts=found.rows,
        chosen=host,
        **links(request, found.next, {"run": run}),
    )


@router.post("/hosts")
async def treat_host(request: Request, guest: Operator) -> Response:
    """Pause a host, or keep a gap between two starts on it."""
    form = await read_form(request)
    host, span = one_of(form, "host").strip(), _span(one_of(form, "seconds"))
    if not host:
        raise InvalidSetting("host", "must be named")
    if one_of(form, "deed") == "slow":
        await deeds.slow_host(site_of(request), guest, host, span)
    else:
        await deeds.pause_host(site_of(request), guest, host, span)
    return back_to(request, "/hosts", "host")


@router.get("/actions")
async def actions(request: Request, after: str | None = None) -> Response:
    """List who did what by these pages and the API, the newest first."""
    async with answering(site_of(request)):
        listed = await actions_of(site_of(request).app.queue)
    found = await page_of(each(listed), lambda action: action.id, limit=ROWS, after=after)
    return await page(
        request, "actions.html", title="Actions", actions=found.rows, **links(request, found.next, {})
    )


def _span(text: str) -> timedelta:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST:
        raise InvalidSetting("seconds", f"must be from 0 to {LONGEST:,.0f}, got {text[:20]!r}")
    return timedelta(seconds=seconds)
