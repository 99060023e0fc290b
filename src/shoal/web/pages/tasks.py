"""The tasks of a run by key, URL, state or step; and its proxies."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors import InvalidSetting
from shoal.core.model import TaskState
from shoal.fleet.proxies import proxies as proxies_of
from shoal.web.api.params import Label, RunId
from shoal.web.frame import answering, page
from shoal.web.pages.runpage import frame_of, links, seen, typed
from shoal.web.paging import each, placed, searched
from shoal.web.paging import page as page_of
from shoal.web.site import site_of

router = APIRouter()
ROWS = 50
Text = Annotated[Label, Query()]
STATES = [str(state) for state in TaskState]


@router.get("/runs/{run_id}/tasks")
async def tasks(
    request: Request,
    run_id: RunId,
    key: Text = "",
    part: Text = "",
    state: str = "",
    step: Text = "",
    after: str | None = None,
) -> Response:
    """List the tasks of a run as they are now; or search some thousands of them for a part of a URL."""
    if state and state not in STATES:
        raise InvalidSetting("state", f"must be one of {', '.join(STATES)}")
    chosen = {"key": key, "part": part, "state": state, "step": step}
    sample, one = await seen(request, run_id)
    source = site_of(request).app.queue.tasks(
        run_id,
        step=step or None,
        states=[TaskState(state)] if state else None,
        keys=[key.strip()] if key.strip() else None,
        after=after or None,
    )
    async with answering(site_of(request)):
        search = await searched(source, lambda task: part in (task.url or ""), ROWS) if part else None
        found = search.page if search else await placed(source, ROWS)
    return await page(
        request,
        "tasks.html",
        title=f"Tasks · {one.run.scraper}",
        heading=one.run.scraper,
        command=typed("shoal", "records", run_id, *([key] if key else []), state=state, step=step),
        sample=sample,
        tasks=found.rows,
        states=STATES,
        search=search,
        key=key,
        part=part,
        state=state,
        step=step,
        **(frame_of(run_id, "Tasks", one) | links(request, None if key else found.next, chosen)),
    )


@router.get("/runs/{run_id}/proxies")
async def proxies(request: Request, run_id: RunId, after: str | None = None) -> Response:
    """List the proxies of a run: what came by each, and which are benched."""
    sample, one = await seen(request, run_id)
    async with answering(site_of(request)):
        rows = [status.as_json() for status in await proxies_of(site_of(request).app.queue, run_id)]
    found = await page_of(each(rows), lambda row: str(row["proxy"]), limit=ROWS, after=after)
    return await page(
        request,
        "proxies.html",
        title=f"Proxies · {one.run.scraper}",
        heading=one.run.scraper,
        command=f"shoal proxies {run_id}",
        sample=sample,
        proxies=found.rows,
        **(frame_of(run_id, "Proxies", one) | links(request, found.next, {})),
    )
