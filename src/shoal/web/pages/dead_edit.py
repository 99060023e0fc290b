"""The forms that edit dead letters: one, or the URLs of all that match."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors import InvalidInput
from shoal.core.model import DeadFilter, DeadLetter
from shoal.fleet.run.letters import EditReport, LetterChange, method_of, read_change
from shoal.fleet.status.letter_ids import find_letter
from shoal.web.api.params import Letter, Operator, RunId, Text
from shoal.web.context import context_of
from shoal.web.pages.dead import Filter, as_fields, count_words, read_filter
from shoal.web.pages.runs import command_line, load_run, path_of_run
from shoal.web.views.form import Form, form_field, read_form, read_headers, read_payload
from shoal.web.views.render import queue_timeout, redirect_after, render_confirm, root_of

router = APIRouter()


@router.post("/runs/{run_id}/dead/{letter}/edit")
async def edit(request: Request, run_id: RunId, letter: Letter, actions: Operator) -> Response:
    """Change a dead letter, and show it."""
    context, form = context_of(request), await read_form(request)
    found = await find_letter(context.app.queue, run_id, letter)
    change = changes_in(form, found)
    edited = await actions.edit_letter(run_id, letter, change) if change else found
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
    method = form_field(form, "method").strip().upper()
    if method and method != method_of(task):
        given["method"] = method
    if body := form_field(form, "body"):
        given["body"] = body.replace("\r\n", "\n")  # as it was typed: forms send both
    if headers := read_headers(form_field(form, "headers")):
        given["headers"] = headers
    return read_change(given) if given else None


@router.get("/runs/{run_id}/edit")
async def confirm_replace(
    request: Request, run_id: RunId, actions: Operator, where: Filter, old: Text = "", new: Text = ""
) -> Response:
    """Ask for confirmation before a text is replaced in the URLs of dead letters."""
    change = LetterChange(url_replace=(old, new))
    sample, _ = await load_run(request, run_id)
    async with queue_timeout(context_of(request)):
        report = await actions.edit_letters(run_id, change, where=where, dry_run=True)
    run_path, letters = f"{root_of(request)}{path_of_run(run_id)}", count_words(report.edited, False)
    return await render_confirm(
        request,
        title="Edit dead letters",
        command=_command(run_id, where, old, new),
        sample=sample,
        question=f"Edit {letters}?" if report.edited else "No URL would change.",
        consequence=_consequence(report),
        can_do=bool(report.edited),
        is_destructive=False,
        verb=f"Edit {letters}",
        action=f"{run_path}/edit",
        fields=[("old", old), ("new", new), *as_fields(where).items()],
        back=f"{run_path}/dead",
    )


@router.post("/runs/{run_id}/edit")
async def replace_urls(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Replace a text in the URLs of the dead letters that match."""
    form = await read_form(request)
    where = read_filter(*(form_field(form, name) for name in ("step", "host", "error")))
    change = LetterChange(url_replace=(form_field(form, "old"), form_field(form, "new")))
    report = await actions.edit_letters(run_id, change, where=where)
    return redirect_after(request, f"{path_of_run(run_id)}/dead", "edited letters", count=report.edited)


def _command(run_id: str, where: DeadFilter, old: str, new: str) -> str:
    filters = {"from-step": where.step or "", "host": where.host or "", "error": where.error or ""}
    return command_line("dead", "edit", run_id, "--url-replace", old, new, **filters)


def _consequence(report: EditReport) -> str:
    first = report.differences[0].change.removeprefix("edited: ") if report.differences else ""
    example = f"For example: {first}. " if first else ""
    others = (
        (report.unchanged, "do not contain the text"),
        (report.duplicate, "would become a task that the run has"),
        (report.invalid, "would not be valid"),
    )
    return example + " ".join(f"{count:,} letters {why}: they stay." for count, why in others if count)
