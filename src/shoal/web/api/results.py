"""What a run has brought: items, rejects, expired tasks, and a file of all items."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import StreamingResponse

from shoal.fleet.rows import expired_row, item_row, reject_row
from shoal.web.api import schema
from shoal.web.api.params import LIMIT, After, Limit, Number, RunId, Step, TheSite, listed
from shoal.web.download import MEDIA_TYPES, download
from shoal.web.paging import numbered, placed, taken

router = APIRouter(tags=["results"])


@router.get("/runs/{run_id}/items", response_model=schema.Listed[schema.ItemRow])
async def items(
    site: TheSite, run_id: RunId, step: Step = None, limit: Limit = LIMIT, after: Number = 0
) -> dict[str, Any]:
    """List the items in the order in which they were stored."""
    found = await taken(site.app.queue.items(run_id, step=step, after=after), limit + 1)
    return listed(numbered(found, lambda item: item.id, limit), item_row)


@router.get("/runs/{run_id}/rejects", response_model=schema.Listed[schema.RejectRow])
async def rejects(
    site: TheSite, run_id: RunId, step: Step = None, limit: Limit = LIMIT, after: Number = 0
) -> dict[str, Any]:
    """List what failed validation or a filter, with the reasons."""
    found = await taken(site.app.queue.rejects(run_id, step=step, after=after), limit + 1)
    return listed(numbered(found, lambda reject: reject.id, limit), reject_row)


@router.get("/runs/{run_id}/expired", response_model=schema.Listed[schema.ExpiredRow])
async def expired(site: TheSite, run_id: RunId, limit: Limit = LIMIT, after: After = None) -> dict[str, Any]:
    """List the tasks whose time to live ran out."""
    return listed(await placed(site.app.queue.expired(run_id, after=after), limit), expired_row)


@router.get(
    "/runs/{run_id}/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The items: lines of JSON, or a table",
            "content": {kind: {"schema": {"type": "string"}} for kind in MEDIA_TYPES.values()},
        }
    },
)
async def export(
    site: TheSite,
    run_id: RunId,
    format: Literal["jsonl", "csv"] = "jsonl",
    step: Step = None,
    envelope: Annotated[bool, Query(description="With url, step, task and time")] = False,
    raw: Annotated[bool, Query(description="CSV: cells are not made safe for spreadsheets")] = False,
) -> StreamingResponse:
    """Stream the items of a run as a file."""
    await site.app.queue.run(run_id)
    chunks = await download(
        lambda: site.app.queue.items(run_id, step=step), format, envelope=envelope, raw=raw
    )
    headers = {"Content-Disposition": f'attachment; filename="{run_id}.{format}"'}
    return StreamingResponse(chunks, media_type=MEDIA_TYPES[format], headers=headers)
