"""The items and rejects of a run, a page at a time."""

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.values import counted
from shoal.web.api.params import RunId, Text
from shoal.web.context import context_of
from shoal.web.pages.runs import command_line, load_run, page_links, path_of_run, run_tab_data
from shoal.web.views.format import cells_of, columns_of
from shoal.web.views.paging import id_page, take
from shoal.web.views.render import queue_timeout, render_page, root_of

router = APIRouter()
ROWS = 25


@router.get("/runs/{run_id}/items")
async def items(request: Request, run_id: RunId, step: Text = "", after: str | None = None) -> Response:
    """Preview the items of a run."""
    found = context_of(request).app.queue.items(run_id, step=step or None, after=_number(after))
    return await _records(
        request,
        run_id,
        found,
        "Items",
        step,
        command=command_line("export", run_id, "--to", "items.jsonl"),
        exports=_exports(request, run_id, step),
        nothing="No items yet.",
    )


@router.get("/runs/{run_id}/rejects")
async def rejects(request: Request, run_id: RunId, step: Text = "", after: str | None = None) -> Response:
    """Preview the rejects with their reasons."""
    found = context_of(request).app.queue.rejects(run_id, step=step or None, after=_number(after))
    return await _records(
        request,
        run_id,
        found,
        "Rejects",
        step,
        command=command_line("rejects", run_id),
        exports=[],
        nothing="No rejects.",
    )


async def _records(
    request: Request, run_id: str, source: Any, tab: str, step: str, **values: Any
) -> Response:
    sample, snapshot = await load_run(request, run_id)
    async with queue_timeout(context_of(request)):
        found = id_page(await take(source, ROWS + 1), lambda row: row.id, ROWS)
    columns, more = columns_of(row.data for row in found.rows)
    count = snapshot.stats.items if tab == "Items" else snapshot.stats.rejected
    return await render_page(
        request,
        "records.html",
        title=f"{counted(count, tab.lower().removesuffix('s'))} · {snapshot.run.scraper}",
        heading=snapshot.run.scraper,
        sample=sample,
        rows=[(row, cells_of(row.data, columns)) for row in found.rows],
        columns=columns,
        more_columns=more,
        step=step,
        with_reason=tab == "Rejects",
        **(run_tab_data(run_id, tab, snapshot) | page_links(request, found.next, {"step": step}) | values),
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
