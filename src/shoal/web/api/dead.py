"""Dead letters: list, show, edit, replay and drop."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import PlainTextResponse, Response

from shoal.core.model import DeadFilter, Task
from shoal.fleet.status.find import find_letter
from shoal.fleet.status.rows.letters import DeadLetterRow, WholeLetterRow, letter_row, whole_letter_row
from shoal.fleet.status.rows.row import fields_of
from shoal.queue.contract import Queue
from shoal.scrape.page import Page
from shoal.web.actions import Operator
from shoal.web.api.responses import DropResponse, EditResponse, ReplayResponse
from shoal.web.errors import ApiError
from shoal.web.requests import (
    LIMIT,
    After,
    Context,
    DeadLettersBody,
    EditLettersBody,
    Label,
    Letter,
    LetterChangeBody,
    Limit,
    ReplayBody,
    RunId,
    Step,
)
from shoal.web.views.paging import ListPage, cursor_page
from shoal.worker.failures.pages import read_failed_page

SANDBOX = "sandbox; default-src 'none'"

router = APIRouter(prefix="/runs/{run_id}/dead", tags=["dead letters"])


async def failed_page_response(queue: Queue, run_id: str, letter_id: str) -> Response:
    """Return the kept page of a dead letter; raises ApiError with status 404 if there is none."""
    found = await read_failed_page(queue, run_id, letter_id)
    if found is None:
        raise ApiError(404, "NoPage", "The page of this dead letter was not kept, or has expired.")
    text = Page(found.response, Task(url=found.url)).html
    return PlainTextResponse(text.encode(errors="replace"), headers={"Content-Security-Policy": SANDBOX})


@router.get("")
async def letters(
    context: Context,
    run_id: RunId,
    step: Step = None,
    host: Annotated[Label | None, Query(description="Only this host; without a port, on any")] = None,
    error: Annotated[Label | None, Query(description="Only errors that contain this text")] = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> ListPage[DeadLetterRow]:
    """List the dead letters, oldest first."""
    where = DeadFilter(step=step, host=host, error=error)
    return (await cursor_page(context.app.queue.dead(run_id, where, after=after), limit)).of(letter_row)


@router.get("/{letter}")
async def show(context: Context, run_id: RunId, letter: Letter) -> WholeLetterRow:
    """Show one dead letter with its payload, its page and all attempts."""
    queue = context.app.queue
    return whole_letter_row(
        await find_letter(queue, run_id, letter), await read_failed_page(queue, run_id, letter)
    )


@router.get("/{letter}/page", response_class=PlainTextResponse)
async def page(context: Context, run_id: RunId, letter: Letter) -> Response:
    """Return the page that failed, as plain text; 404 if it was not kept."""
    return await failed_page_response(context.app.queue, run_id, letter)


@router.patch("/{letter}")
async def edit_one(
    context: Context, actions: Operator, run_id: RunId, letter: Letter, body: LetterChangeBody
) -> WholeLetterRow:
    """Change one dead letter and return it; its id follows its URL and step."""
    edited = await actions.edit_letter(run_id, letter, body.change())
    return whole_letter_row(edited, await read_failed_page(context.app.queue, run_id, edited.id))


@router.post("/edit")
async def edit(actions: Operator, run_id: RunId, body: EditLettersBody) -> EditResponse:
    """Change dead letters, or report what would change."""
    where = body.filter()
    report = await actions.edit_letters(
        run_id, body.change.change(), body.ids, where=where, dry_run=body.dry_run
    )
    return EditResponse(**fields_of(report), run_id=run_id, dry_run=body.dry_run)


@router.post("/replay")
async def replay(actions: Operator, run_id: RunId, body: ReplayBody) -> ReplayResponse:
    """Put dead letters back to pending with their attempts reset, at once or after a delay."""
    delay = timedelta(seconds=body.delay_seconds)
    count = await actions.replay(run_id, body.ids, where=body.filter(), delay=delay)
    return ReplayResponse(run_id, count, body.delay_seconds)


@router.post("/drop")
async def drop(actions: Operator, run_id: RunId, body: DeadLettersBody) -> DropResponse:
    """Drop dead letters permanently."""
    return DropResponse(run_id, await actions.drop(run_id, body.ids, where=body.filter()))
