"""The form that edits one dead letter."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors import InvalidInput
from shoal.core.model import DeadLetter
from shoal.fleet.run.letters import LetterChange, read_change
from shoal.fleet.status.rows import find_letter
from shoal.web import actions
from shoal.web.api.params import Letter, Operator, RunId
from shoal.web.context import context_of
from shoal.web.pages.runs import path_of_run
from shoal.web.views.form import Form, form_field, read_form, read_headers, read_payload
from shoal.web.views.render import redirect_after

router = APIRouter()


@router.post("/runs/{run_id}/dead/{letter}/edit")
async def edit(request: Request, run_id: RunId, letter: Letter, principal: Operator) -> Response:
    """Change a dead letter, and show it."""
    context, form = context_of(request), await read_form(request)
    found = await find_letter(context.app.queue, run_id, letter)
    change = changes_in(form, found)
    edited = await actions.edit_letter(context, principal, run_id, letter, change) if change else found
    return redirect_after(request, f"{path_of_run(run_id)}/dead/{edited.id}", "edited")


def changes_in(form: Form, letter: DeadLetter) -> LetterChange | None:
    """Return what a form changes in a letter; None if nothing. Raises InvalidInput."""
    task, given = letter.task, dict[str, Any]()
    url, step, priority = (form_field(form, name).strip() for name in ("url", "step", "priority"))
    if url and url != task.url:
        given["url"] = url
    if step and step != task.step:
        given["step"] = step
    if priority and priority != str(task.priority):
        if not priority.isdecimal():
            raise InvalidInput("The priority must be a number from 0 to 9. Nothing was changed.")
        given["priority"] = int(priority)
    if "payload" in form and (payload := read_payload(form_field(form, "payload"))) != dict(task.payload):
        given["payload"] = payload
    if headers := read_headers(form_field(form, "headers")):
        given["headers"] = headers
    return read_change(given) if given else None
