"""Dead letters: list, show, edit, replay and drop."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import PlainTextResponse, Response

from shoal.core.model import DeadFilter
from shoal.fleet.status.letter_ids import find_letter
from shoal.fleet.status.rows import letter_row, whole_letter_row
from shoal.web.api import action_responses, responses
from shoal.web.api.params import (
    LIMIT,
    After,
    Context,
    Letter,
    Limit,
    Operator,
    RunId,
    Step,
    list_response,
)
from shoal.web.api.requests import DeadLettersBody, EditLettersBody, Label, LetterChangeBody, ReplayBody
from shoal.web.views.failed_page import failed_page_response
from shoal.web.views.paging import cursor_page
from shoal.worker.failures.pages import read_failed_page

router = APIRouter(prefix="/runs/{run_id}/dead", tags=["dead letters"])


@router.get("", response_model=responses.ListResponse[responses.DeadLetterResponse])
async def letters(
    context: Context,
    run_id: RunId,
    step: Step = None,
    host: Annotated[Label | None, Query(description="Only this host; without a port, on any")] = None,
    error: Annotated[Label | None, Query(description="Only errors that contain this text")] = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> dict[str, Any]:
    """List the dead letters, oldest first."""
    where = DeadFilter(step=step, host=host, error=error)
    return list_response(
        await cursor_page(context.app.queue.dead(run_id, where, after=after), limit), letter_row
    )


@router.get("/{letter}", response_model=responses.DeadLetterDetail)
async def show(context: Context, run_id: RunId, letter: Letter) -> dict[str, Any]:
    """Show one dead letter with its payload, its page and all attempts."""
    queue = context.app.queue
    return whole_letter_row(
        await find_letter(queue, run_id, letter), await read_failed_page(queue, run_id, letter)
    )


@router.get("/{letter}/page", response_class=PlainTextResponse)
async def page(context: Context, run_id: RunId, letter: Letter) -> Response:
    """Return the page that failed, as plain text; 404 if it was not kept."""
    return await failed_page_response(context.app.queue, run_id, letter)


@router.patch("/{letter}", response_model=responses.DeadLetterDetail)
async def edit_one(
    context: Context, actions: Operator, run_id: RunId, letter: Letter, body: LetterChangeBody
) -> dict[str, Any]:
    """Change one dead letter and return it; its id follows its URL and step."""
    edited = await actions.edit_letter(run_id, letter, body.change())
    return whole_letter_row(edited, await read_failed_page(context.app.queue, run_id, edited.id))


@router.post("/edit", response_model=action_responses.EditResponse)
async def edit(actions: Operator, run_id: RunId, body: EditLettersBody) -> dict[str, Any]:
    """Change dead letters, or report what would change."""
    where = body.filter()
    report = await actions.edit_letters(
        run_id, body.change.change(), body.ids, where=where, dry_run=body.dry_run
    )
    return {"run_id": run_id, "dry_run": body.dry_run, **report.as_json()}


@router.post("/replay", response_model=action_responses.ReplayResponse)
async def replay(actions: Operator, run_id: RunId, body: ReplayBody) -> dict[str, Any]:
    """Put dead letters back to pending with their attempts reset, at once or after a delay."""
    delay = timedelta(seconds=body.delay_seconds)
    return {
        "run_id": run_id,
        "replayed": await actions.replay(run_id, body.ids, where=body.filter(), delay=delay),
        "delay_seconds": body.delay_seconds,
    }


@router.post("/drop", response_model=action_responses.DropResponse)
async def drop(actions: Operator, run_id: RunId, body: DeadLettersBody) -> dict[str, Any]:
    """Drop dead letters permanently."""
    return {"run_id": run_id, "dropped": await actions.drop(run_id, body.ids, where=body.filter())}
