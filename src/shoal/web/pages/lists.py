"""What a run has: items, rejects, tasks, proxies, Tor and tokens, a page at a time."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors import InvalidSetting
from shoal.core.model import TaskState
from shoal.core.values import counted
from shoal.fleet.sources.recrawl import compared
from shoal.fleet.status.changes import list_changes, read_change_kind
from shoal.fleet.status.proxies import TROUBLED
from shoal.fleet.status.proxies import proxies as proxies_of
from shoal.fleet.status.rows.fetchers import ProxyRow, TokenRow, TorRow
from shoal.fleet.status.tokens import tokens as tokens_of
from shoal.fleet.status.tor import tors
from shoal.web.context import context_of
from shoal.web.pages.runs import command_line, load_run, page_links, path_of_run, render_tab
from shoal.web.requests import Number, RunId, Text
from shoal.web.views.format import cells_of, columns_of
from shoal.web.views.paging import as_async, cursor_page, id_page, scan_page, search_page, take
from shoal.web.views.render import queue_timeout, root_of

router = APIRouter()
ITEM_ROWS = 25
ROWS = 50
STATES = [str(state) for state in TaskState]


@router.get("/runs/{run_id}/items")
async def items(request: Request, run_id: RunId, step: Text = "", after: Number = 0) -> Response:
    """Preview the items of a run."""
    found = context_of(request).app.queue.items(run_id, step=step or None, after=after)
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
async def rejects(request: Request, run_id: RunId, step: Text = "", after: Number = 0) -> Response:
    """Preview the rejects with their reasons."""
    found = context_of(request).app.queue.rejects(run_id, step=step or None, after=after)
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
    seen = await load_run(request, run_id)
    async with queue_timeout(context_of(request)):
        found = id_page(await take(source, ITEM_ROWS + 1), lambda row: row.id, ITEM_ROWS)
    columns, more = columns_of(row.data for row in found.rows)
    stats = seen[1].stats
    return await render_tab(
        request,
        "records.html",
        tab,
        seen,
        subject=counted(stats.items if tab == "Items" else stats.rejected, tab.lower().removesuffix("s")),
        rows=[(row, cells_of(row.data, columns)) for row in found.rows],
        columns=columns,
        more_columns=more,
        step=step,
        with_reason=tab == "Rejects",
        **(page_links(request, found.next, {"step": step}) | values),
    )


@router.get("/runs/{run_id}/changes")
async def changes(request: Request, run_id: RunId, only: str = "", after: str | None = None) -> Response:
    """List the pages of a recrawl that are new, changed or gone, with the fields that differ."""
    kind = read_change_kind(only or None)
    seen = await load_run(request, run_id)
    async with queue_timeout(context_of(request)):
        queue = context_of(request).app.queue
        found = await cursor_page(list_changes(queue, seen[1].run, only=kind, after=after or None), ROWS)
        counts = (await compared(queue, seen[1].run)).as_json()
    return await render_tab(
        request,
        "changes.html",
        "Changes",
        seen,
        subject="Changes",
        command=command_line("changes", run_id, only=only),
        changes=[(row, cells_of({"old": row.old, "new": row.new}, ["old", "new"])) for row in found.rows],
        counts=counts,
        **({"only": only} | page_links(request, found.next, {"only": only})),
    )


def _exports(request: Request, run_id: str, step: str) -> list[tuple[str, str]]:
    base = f"{root_of(request)}/api{path_of_run(run_id)}/export"
    chosen = {"step": step} if step else {}
    return [
        (name, f"{base}?{urlencode({'format': format, **chosen})}")
        for name, format in (("Export JSONL", "jsonl"), ("Export CSV", "csv"))
    ]


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
    """List the tasks of a run, or search a few thousand of them for part of a URL."""
    if state and state not in STATES:
        raise InvalidSetting("state", f"must be one of {', '.join(STATES)}")
    chosen = {"key": key, "part": part, "state": state, "step": step}
    seen = await load_run(request, run_id)
    source = context_of(request).app.queue.tasks(
        run_id,
        step=step or None,
        states=[TaskState(state)] if state else None,
        keys=[key.strip()] if key.strip() else None,
        after=after or None,
    )
    async with queue_timeout(context_of(request)):
        search = await search_page(source, lambda task: part in (task.url or ""), ROWS) if part else None
        found = search.page if search else await cursor_page(source, ROWS)
    return await render_tab(
        request,
        "tasks.html",
        "Tasks",
        seen,
        subject="Tasks",
        command=command_line("records", run_id, *([key] if key else []), state=state, step=step),
        tasks=found.rows,
        states=STATES,
        search=search,
        **(chosen | page_links(request, None if key else found.next, chosen)),
    )


@router.get("/runs/{run_id}/proxies")
async def proxies(request: Request, run_id: RunId, after: str | None = None) -> Response:
    """List the proxies of a run with their counts, those that are benched or blocked first."""
    async with queue_timeout(context_of(request)):
        rows = [status.row() for status in await proxies_of(context_of(request).app.queue, run_id)]
    rows.sort(key=lambda row: row.state not in TROUBLED)
    return await _list_by_name(request, run_id, rows, "Proxies", "proxy", after)


@router.get("/runs/{run_id}/tor")
async def tor(request: Request, run_id: RunId, after: str | None = None) -> Response:
    """List the Tor process of each worker of a run."""
    async with queue_timeout(context_of(request)):
        rows = [status.row() for status in await tors(context_of(request).app.queue, run_id)]
    return await _list_by_name(request, run_id, rows, "Tor", "worker", after)


@router.get("/runs/{run_id}/tokens")
async def api_tokens(request: Request, run_id: RunId, after: str | None = None) -> Response:
    """List the API tokens of a run by name, with their remaining quota."""
    async with queue_timeout(context_of(request)):
        rows = [status.row() for status in await tokens_of(context_of(request).app.queue, run_id)]
    return await _list_by_name(request, run_id, rows, "Tokens", "token", after)


async def _list_by_name(
    request: Request,
    run_id: str,
    rows: Sequence[ProxyRow | TorRow | TokenRow],
    tab: str,
    key: str,
    after: str | None,
) -> Response:
    seen = await load_run(request, run_id)
    found = await scan_page(as_async(rows), lambda row: str(getattr(row, key)), limit=ROWS, after=after)
    name = tab.lower()
    values = {name: found.rows, "command": command_line(name, run_id)}
    return await render_tab(
        request, f"{name}.html", tab, seen, subject=tab, **values, **page_links(request, found.next, {})
    )
