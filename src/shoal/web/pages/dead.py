"""Dead letters: the list with its filters, a single letter, replay, drop and edit."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors import InvalidInput
from shoal.core.model import DeadFilter, DeadLetter
from shoal.core.values import counted, read_duration, read_priority
from shoal.fleet.run.letters import EditReport, LetterChange, method_of, read_headers
from shoal.fleet.status.find import find_letter
from shoal.web.actions import Operator
from shoal.web.api.dead import failed_page_response
from shoal.web.context import context_of
from shoal.web.pages.runs import command_line, load_names, load_run, page_links, path_of_run, render_tab
from shoal.web.requests import Letter, RunId, Text
from shoal.web.views.form import Form, form_field, payload_text, read_form, read_payload
from shoal.web.views.models import dead_data, worker_data
from shoal.web.views.paging import cursor_page, search_page, take
from shoal.web.views.render import queue_timeout, redirect_after, render_confirm, render_page
from shoal.worker.failures.pages import read_failed_page

router = APIRouter()
ROWS = 25


def read_filter(step: Text = "", host: Text = "", error: Text = "") -> DeadFilter:
    """Read the filter from the query string."""
    return DeadFilter(step=step or None, host=host or None, error=error or None)


Filter = Annotated[DeadFilter, Depends(read_filter)]


def as_fields(where: DeadFilter) -> dict[str, str]:
    """Return a filter as query or form fields."""
    return {name: str(value) for name, value in asdict(where).items() if value}


@router.get("/dead")
async def all_dead(request: Request, where: Filter, after: str | None = None) -> Response:
    """List the dead letters of all runs that match, the newest run first."""
    fields = as_fields(where)
    async with queue_timeout(context_of(request)):
        found = await cursor_page(context_of(request).app.dead(where, after=after or None), ROWS)
    return await render_page(
        request,
        "all_dead.html",
        title="Dead letters",
        command=command_line("dead", "list", **fields),
        letters=found.rows,
        where=where,
        **page_links(request, found.next, fields),
    )


@router.get("/runs/{run_id}/dead")
async def dead(
    request: Request, run_id: RunId, where: Filter, part: Text = "", after: str | None = None
) -> Response:
    """List the dead letters that match, or search a few thousand of them for part of a URL."""
    queue, fields = context_of(request).app.queue, as_fields(where)
    sample, snapshot = await load_run(request, run_id)
    is_replayed = request.query_params.get("done") in ("replayed", "delayed")
    if is_replayed:
        await load_names(context_of(request))
    source = queue.dead(run_id, where, after=after or None)
    async with queue_timeout(context_of(request)):
        search = (
            await search_page(source, lambda letter: part in (letter.task.url or ""), ROWS) if part else None
        )
        found = search.page if search else await cursor_page(source, ROWS)
        dead_errors = await context_of(request).dead_errors.read(run_id, snapshot.stats.dead)
    return await render_tab(
        request,
        "dead.html",
        "Dead letters",
        (sample, snapshot),
        subject=counted(snapshot.stats.dead, "dead letter"),
        command=command_line("dead", "list", run_id, **fields),
        letters=found.rows,
        where=where,
        search=search,
        part=part,
        filter=urlencode(fields),
        filter_fields=fields,
        is_replayed=is_replayed,
        **(
            dead_data(dead_errors)
            | await worker_data(context_of(request), sample, snapshot)
            | page_links(request, found.next, {**fields, "part": part})
        ),
    )


@router.get("/runs/{run_id}/dead/{letter}")
async def show(request: Request, run_id: RunId, letter: Letter) -> Response:
    """Show one dead letter with its attempts as a timeline."""
    seen = await load_run(request, run_id)
    async with queue_timeout(context_of(request)):
        queue = context_of(request).app.queue
        found = await find_letter(queue, run_id, letter)
        page = await read_failed_page(queue, run_id, letter)
    return await render_tab(
        request,
        "dead_letter.html",
        "Dead letters",
        seen,
        subject="Dead letter",
        command=command_line("dead", "show", run_id, letter),
        letter=found,
        page=page,
        payload=dict(found.task.payload),
        payload_text=payload_text(found.task.payload),
        method=method_of(found.task),
    )


@router.get("/runs/{run_id}/dead/{letter}/page")
async def failed_page(request: Request, run_id: RunId, letter: Letter) -> Response:
    """Show the page that failed, as plain text."""
    async with queue_timeout(context_of(request)):
        return await failed_page_response(context_of(request).app.queue, run_id, letter)


def count_words(letters: int, is_more: bool) -> str:
    """Return the number of dead letters in words, as far as they were counted."""
    return f"{'more than ' if is_more else ''}{counted(letters, 'dead letter')}"


def fields_of(ids: Sequence[str], where: DeadFilter) -> list[tuple[str, Any]]:
    """Return the hidden form fields that select these letters, or all that match."""
    if ids:
        return [("id", letter_id) for letter_id in ids]
    return [("all", "1"), *as_fields(where).items()]


MAX_COUNTED = 5_000

Ids = Annotated[list[str] | None, Query(alias="id", max_length=1_000)]
Verb = Literal["replay", "drop"]
CONSEQUENCES = {
    "replay": "They go back to pending with their attempts reset, and the workers of the run retry them.",
    "drop": "They are dropped permanently. Their keys stay in use, so the run does not queue them again.",
}


@router.get("/runs/{run_id}/replay")
async def confirm_replay(
    request: Request, run_id: RunId, actions: Operator, where: Filter, ids: Ids = None, all: bool = False
) -> Response:
    """Ask for confirmation before dead letters are replayed."""
    return await _confirm(request, run_id, "replay", ids or [], where if all else None)


@router.get("/runs/{run_id}/drop")
async def confirm_drop(
    request: Request, run_id: RunId, actions: Operator, where: Filter, ids: Ids = None, all: bool = False
) -> Response:
    """Ask for confirmation before dead letters are dropped."""
    return await _confirm(request, run_id, "drop", ids or [], where if all else None)


@router.post("/runs/{run_id}/replay")
async def replay(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Put dead letters back to pending, after a delay if one was typed."""
    form = await read_form(request)
    delay = read_duration("delay", form_field(form, "delay").strip() or 0)
    action = partial(actions.replay, delay=delay)
    return await _change(request, run_id, form, action, "delayed" if delay else "replayed")


@router.post("/runs/{run_id}/drop")
async def drop(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Drop dead letters permanently."""
    return await _change(request, run_id, await read_form(request), actions.drop, "dropped")


async def _change(
    request: Request, run_id: str, form: Form, action: Callable[..., Awaitable[int]], done: str
) -> Response:
    selected = _read_selection(form)
    count = await action(run_id, selected["ids"], where=selected["where"])
    return redirect_after(request, f"{path_of_run(run_id)}/dead", done, count=count)


async def _confirm(
    request: Request, run_id: str, verb: Verb, ids: Sequence[str], where: DeadFilter | None
) -> Response:
    sample, _ = await load_run(request, run_id)
    count, is_more = await _count(request, run_id, ids, where)
    run_path = path_of_run(run_id)
    words = count_words(count, is_more)
    return await render_confirm(
        request,
        title=f"{verb.capitalize()} dead letters",
        command=command_line("dead", verb, run_id, *ids, **as_fields(where or DeadFilter())),
        sample=sample,
        question=f"{verb.capitalize()} {words}?" if count else "Nothing selected, or nothing matches.",
        consequence=CONSEQUENCES[verb] if count else "Select some in the list, or choose all that match.",
        can_do=bool(count),
        is_destructive=verb == "drop",
        takes_delay=verb == "replay",
        verb=f"{verb.capitalize()} {words}",
        action=f"{run_path}/{verb}",
        fields=fields_of(ids, where or DeadFilter()),
        back=f"{run_path}/dead",
    )


async def _count(
    request: Request, run_id: str, ids: Sequence[str], where: DeadFilter | None
) -> tuple[int, bool]:
    """Count the selected letters, up to a limit; also return whether there are more."""
    if ids or where is None:
        return len(set(ids)), False
    async with queue_timeout(context_of(request)):
        found = len(await take(context_of(request).app.queue.dead(run_id, where), MAX_COUNTED + 1))
    return min(found, MAX_COUNTED), found > MAX_COUNTED


def _read_selection(form: Form) -> dict[str, Any]:
    """Return which letters a form selects; raises InvalidInput if none."""
    if ids := form.get("id"):
        return {"ids": list(dict.fromkeys(ids)), "where": DeadFilter()}
    if not form_field(form, "all"):
        raise InvalidInput("No dead letter selected. Select some in the list, or choose all that match.")
    step, host, error = (form_field(form, name) or None for name in ("step", "host", "error"))
    return {"ids": None, "where": DeadFilter(step=step, host=host, error=error)}


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
    task = letter.task
    before = {"url": task.url, "step": task.step, "priority": str(task.priority), "method": method_of(task)}
    typed = {name: form_field(form, name).strip() for name in before}
    given: dict[str, Any] = {name: text for name, text in typed.items() if text not in ("", before[name])}
    if "priority" in given:
        given["priority"] = read_priority("priority", given["priority"])
    if "payload" in form and (payload := read_payload(form_field(form, "payload"))) != dict(task.payload):
        given["payload"] = payload
    if body := form_field(form, "body"):
        given["body"] = body.replace("\r\n", "\n")  # as it was typed: forms send both
    if headers := read_headers(filter(None, map(str.strip, form_field(form, "headers").splitlines()))):
        given["headers"] = headers
    return LetterChange(**given) if given else None


@router.get("/runs/{run_id}/edit")
async def confirm_replace(
    request: Request, run_id: RunId, actions: Operator, where: Filter, old: Text = "", new: Text = ""
) -> Response:
    """Ask for confirmation before a text is replaced in the URLs of dead letters."""
    change = LetterChange(url_replace=(old, new))
    sample, _ = await load_run(request, run_id)
    async with queue_timeout(context_of(request)):
        report = await actions.edit_letters(run_id, change, where=where, dry_run=True)
    run_path, letters = path_of_run(run_id), counted(report.edited, "dead letter")
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
