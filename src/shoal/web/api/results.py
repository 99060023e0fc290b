"""The results of a run: items, rejects, expired tasks, and a file of all items."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import StreamingResponse

from shoal.fleet.status.rows import expired_row, item_row, reject_row
from shoal.web.api import responses
from shoal.web.api.params import LIMIT, After, Context, Limit, Number, RunId, Step, list_response
from shoal.web.download import MEDIA_TYPES, download
from shoal.web.views.paging import cursor_page, id_page, take

router = APIRouter(tags=["results"])


@router.get("/runs/{run_id}/items", response_model=responses.ListResponse[responses.ItemResponse])
async def items(
    context: Context, run_id: RunId, step: Step = None, limit: Limit = LIMIT, after: Number = 0
) -> dict[str, Any]:
    """List the items in the order they were stored."""
    found = await take(context.app.queue.items(run_id, step=step, after=after), limit + 1)
    return list_response(id_page(found, lambda item: item.id, limit), item_row)


@router.get("/runs/{run_id}/rejects", response_model=responses.ListResponse[responses.RejectRow])
async def rejects(
    context: Context, run_id: RunId, step: Step = None, limit: Limit = LIMIT, after: Number = 0
) -> dict[str, Any]:
    """List the items that failed validation or a filter, with the reasons."""
    found = await take(context.app.queue.rejects(run_id, step=step, after=after), limit + 1)
    return list_response(id_page(found, lambda reject: reject.id, limit), reject_row)


@router.get("/runs/{run_id}/expired", response_model=responses.ListResponse[responses.ExpiredTaskResponse])
async def expired(
    context: Context, run_id: RunId, limit: Limit = LIMIT, after: After = None
) -> dict[str, Any]:
    """List the tasks whose TTL ran out."""
    return list_response(
        await cursor_page(context.app.queue.expired(run_id, after=after), limit), expired_row
    )


@router.get(
    "/runs/{run_id}/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The items, as JSON lines or CSV",
            "content": {kind: {"schema": {"type": "string"}} for kind in MEDIA_TYPES.values()},
        }
    },
)
async def export(
    context: Context,
    run_id: RunId,
    format: Literal["jsonl", "csv"] = "jsonl",
    step: Step = None,
    envelope: Annotated[bool, Query(description="Include URL, step, task id and time")] = False,
    raw: Annotated[bool, Query(description="CSV: do not escape cells for spreadsheets")] = False,
) -> StreamingResponse:
    """Stream the items of a run as a file."""
    await context.app.queue.run(run_id)
    chunks = await download(
        lambda: context.app.queue.items(run_id, step=step), format, envelope=envelope, raw=raw
    )
    headers = {"Content-Disposition": f'attachment; filename="{run_id}.{format}"'}
    return StreamingResponse(chunks, media_type=MEDIA_TYPES[format], headers=headers)
