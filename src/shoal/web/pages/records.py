"""What a run yielded: its items and its rejects, a page at a time."""

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from shoal.web.api.params import Label, RunId
from shoal.web.frame import answering, page, root_of
from shoal.web.pages.runpage import frame_of, links, path_of_run, seen
from shoal.web.paging import numbered, taken
from shoal.web.shown import cells_of, columns_of
from shoal.web.site import site_of

router = APIRouter()
ROWS = 25
Text = Annotated[Label, Query()]


@router.get("/runs/{run_id}/items")
async def items(request: Request, run_id: RunId, step: Text = "", after: str | None = None) -> Response:
    """Preview the items of a run."""
    found = site_of(request).app.queue.items(run_id, step=step or None, after=_number(after))
    return await _records(
        request,
        run_id,
        found,
        "Items",
        step,
        command=f"shoal export {run_id} --to items.jsonl",
        exports=_exports(request, run_id, step),
        nothing="No items yet.",
    )


@router.get("/runs/{run_id}/rejects")
async def rejects(request: Request, run_id: RunId, step: Text = "", after: str | None = None) -> Response:
    """Preview what was refused, and why."""
    found = site_of(request).app.queue.rejects(run_id, step=step or None, after=_number(after))
    return await _records(
        request,
        run_id,
        found,
        "Rejects",
        step,
        command=f"shoal status {run_id}",
        exports=[],
        nothing="Nothing was rejected.",
    )


async def _records(request: Request, run_id: str, source: Any, tab: str, step: str, **facts: Any) -> Response:
    sample, one = await seen(request, run_id)
    async with answering(site_of(request)):
        found = numbered(await taken(source, ROWS + 1), lambda row: row.id, ROWS)
    columns, more = columns_of(row.data for row in found.rows)
    count = one.stats.items if tab == "Items" else one.stats.rejected
    return await page(
        request,
        "records.html",
        title=f"{count:,} {tab.lower()} · {one.run.scraper}",
        heading=one.run.scraper,
        sample=sample,
        rows=[(row, cells_of(row.data, columns)) for row in found.rows],
        columns=columns,
        more_columns=more,
        step=step,
        with_reason=tab == "Rejects",
        **(frame_of(run_id, tab, one) | links(request, found.next, {"step": step}) | facts),
    )


def _number(after: str | None) -> int:
    return int(after) if after and after.isdecimal() and len(after) < 19 else 0


def _exports(request: Request, run_id: str, step: str) -> list[tuple[str, str]]:
    base = f"{root_of(request)}/api{path_of_run(run_id)}/export"
    chosen = {"step": step} if step else {}
    return [
        (name, f"{base}?{urlencode({'format': format, **chosen})}")
        for name, format in (("Export JSONL", "jsonl"), ("Export CSV", "csv"))
    ]
