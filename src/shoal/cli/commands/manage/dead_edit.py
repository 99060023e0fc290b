"""`shoal dead edit`: change dead letters by options, or one of them in your editor."""

import getpass
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import msgspec
import typer
from msgspec import UNSET, UnsetType

from shoal.cli.configuration import current_project
from shoal.cli.console import confirm, counted, put_json, say
from shoal.cli.exits import Exit
from shoal.cli.open_queue import with_existing_queue, with_run
from shoal.cli.options import common
from shoal.core.errors import InvalidInput
from shoal.core.model import DeadFilter, DeadLetter, Run
from shoal.core.values import read_json_or_text, read_pair
from shoal.fleet.build_job import job_of_run, make_job
from shoal.fleet.command_hints import command_on
from shoal.fleet.job import Job
from shoal.fleet.project.scrapers import load
from shoal.fleet.run.letters import (
    EditReport,
    LetterChange,
    check_step,
    edit_letters,
    method_of,
    read_headers,
)
from shoal.fleet.status.find import find_letter
from shoal.fleet.status.rows.row import fields_of
from shoal.queue.contract import Queue

HIDDEN = "***"  # stands for the value of a header, which may be a secret

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Ids of dead letters, or their ends; all that match by default."),
]
Url = Annotated[str | None, typer.Option("--url", help="New URL, for one letter.", metavar="URL")]
UrlReplace = Annotated[
    tuple[str, str] | None,
    typer.Option("--url-replace", help="Replace this text in the URL.", metavar="OLD NEW"),
]
NewStep = Annotated[str | None, typer.Option("--step", help="New step.", metavar="STEP")]
SetPayload = Annotated[
    list[str] | None,
    typer.Option(
        "--set-payload", help="Set a field of the payload; VALUE is JSON or text.", metavar="NAME=VALUE"
    ),
]
Header = Annotated[
    list[str] | None,
    typer.Option(
        "--header", help="Set a request header; without a value, remove it.", metavar="'NAME: VALUE'"
    ),
]
Method = Annotated[
    str | None, typer.Option("--method", help="New method; GET and HEAD drop the body.", metavar="METHOD")
]
Body = Annotated[
    str | None, typer.Option("--body", help="New body of the request; makes a GET a POST.", metavar="TEXT")
]
Priority = Annotated[int | None, typer.Option("--priority", min=0, max=9, help="New priority.", metavar="N")]
FromStep = Annotated[
    str | None, typer.Option("--from-step", help="Only letters of this step.", metavar="STEP")
]
Host = Annotated[
    str | None,
    typer.Option("--host", help="Only letters of this host; without a port, on any.", metavar="HOST"),
]
Error = Annotated[
    str | None, typer.Option("--error", help="Only errors that contain this text.", metavar="TEXT")
]
ScraperFile = Annotated[
    str | None,
    typer.Option(
        "--scraper", help="The scraper, to check --step, if shoal.toml does not have it.", metavar="FILE"
    ),
]


def edit(
    run_id: common.RunId,
    ids: Ids = None,
    url: Url = None,
    url_replace: UrlReplace = None,
    step: NewStep = None,
    set_payload: SetPayload = None,
    header: Header = None,
    method: Method = None,
    body: Body = None,
    priority: Priority = None,
    from_step: FromStep = None,
    host: Host = None,
    error: Error = None,
    scraper: ScraperFile = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Change dead letters before you replay them.

    Without an option, one of them opens in your $EDITOR.
    """
    # What `newest` means must not change between the preview and the edit.
    run_id, _ = with_run(queue, run_id, lambda opened, found: opened.run(found))
    options: dict[str, Any] = {
        "url": url,
        "url_replace": url_replace,
        "step": step,
        "set_payload": {name: read_json_or_text(value) for name, value in map(_read_pair, set_payload or ())},
        "headers": read_headers(header or ()),
        "method": method,
        "body": body,
        "priority": priority,
    }
    given = {name: value for name, value in options.items() if value not in (None, {})}
    if url and len(ids or ()) != 1:
        raise InvalidInput("--url is for one letter; name its ID. To change many, use --url-replace OLD NEW.")
    if not given:
        if not ids or len(ids) != 1:
            raise InvalidInput("Nothing to change. Give an option such as --url-replace, or name one ID.")
        given = _in_editor(queue, run_id, ids[0])
        if not given:
            say("Nothing was changed.")
            return
    change, where = LetterChange(**given), DeadFilter(step=from_step, host=host, error=error)

    async def edited(opened: Queue, dry_run: bool) -> EditReport:
        await check_step(opened, await opened.run(run_id), change.step, partial(_job_of, queue, scraper))
        by = _editor_name()
        return await edit_letters(
            opened, run_id, change, ids=ids or None, where=where, by=by, dry_run=dry_run
        )

    is_shown = bool(ids or yes or dry_run)
    if not is_shown:
        preview = with_existing_queue(queue, lambda opened: edited(opened, True))
        _show(preview)
        if preview.edited:
            confirm(f"Edit {counted(preview.edited, 'dead letter')}?")
    report = with_existing_queue(queue, lambda opened: edited(opened, dry_run))
    if as_json:
        put_json({"run_id": run_id, "dry_run": dry_run, **fields_of(report)})
    else:
        if is_shown:
            _show(report)
        _say_result(report, dry_run)
        if report.edited and not dry_run:
            say(f"Try again:  {command_on(queue, f'dead replay {run_id}{_ids(report, ids)}')}")
    if report.duplicate or report.changed or report.invalid:
        raise typer.Exit(Exit.PARTIAL)


def _job_of(queue: str, scraper: str | None, run: Run) -> Job:
    project = current_project()
    if scraper:
        return make_job(scraper, load(project, scraper), queue_url=queue)
    return job_of_run(project, queue, run)


def _editor_name() -> str:
    """Return the name of the user for the history of the letters."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "cli"


def _read_pair(text: str) -> tuple[str, str]:
    return read_pair("--set-payload", text, "tag=life")


def _in_editor(queue: str, run_id: str, letter_id: str) -> dict[str, Any]:
    """Open a letter as JSON in the user's editor, and return the fields that were changed."""
    letter = with_existing_queue(queue, lambda opened: find_letter(opened, run_id, letter_id))
    before = _as_document(letter)
    shown = msgspec.json.format(msgspec.json.encode(before), indent=2).decode()
    return changes_in(msgspec.to_builtins(before), _edited(f"{shown}\n"))


def _edited(text: str) -> str:
    """Return a text as the user's editor has left it; raises InvalidInput if the editor fails."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with TemporaryDirectory() as folder:  # that only this user can read
        file = Path(folder) / "letter.json"
        file.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(editor), str(file)], check=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise InvalidInput(f"Nothing was changed: the editor {editor!r} has failed: {error}") from error
        return file.read_text(encoding="utf-8")


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    """A letter in the editor; a field that was deleted there is not changed."""

    url: str | UnsetType | None = UNSET
    step: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    payload: dict[str, Any] | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    method: str | UnsetType = UNSET
    body: str | UnsetType | None = UNSET


def _as_document(letter: DeadLetter) -> _Document:
    task = letter.task
    body = task.request.post if task.request else None
    return _Document(
        url=task.url,
        step=task.step,
        priority=task.priority,
        payload=dict(task.payload),
        headers=dict.fromkeys(task.request.headers, HIDDEN) if task.request else {},
        method=method_of(task),
        body=_as_text(body),
    )


def _as_text(body: bytes | None) -> str | None:
    """Return a body to edit; one that is no text cannot be edited here."""
    try:
        return body.decode() if body is not None else None
    except UnicodeDecodeError:
        return None


def changes_in(before: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return the changed fields of an edited document; raises InvalidInput."""
    try:
        after = msgspec.to_builtins(msgspec.json.decode(text, type=_Document))
    except msgspec.DecodeError as error:
        raise InvalidInput(f"The edited letter cannot be used: {error}. Nothing was changed.") from error
    changed = {name: value for name, value in after.items() if value != before[name]}
    for name in changed:
        if changed[name] is None:  # which would be taken as not given
            raise InvalidInput(f"{name} must be a text. Nothing was changed.")
    if "headers" in changed:
        old, new = before["headers"], changed["headers"]
        set_ = {name: value for name, value in new.items() if old.get(name) != value}
        changed["headers"] = dict.fromkeys(old.keys() - new.keys()) | set_
    return changed


def _show(report: EditReport) -> None:
    for one in report.differences:
        say(f"  {one.id}  {one.change.removeprefix('edited: ')}")
    if report.edited > len(report.differences):
        say(f"  … and {report.edited - len(report.differences):,} more")
    for reason in report.reasons:
        say(f"  not edited: {reason}")


def _say_result(report: EditReport, dry_run: bool) -> None:
    letters = counted(report.edited, "dead letter")
    say(f"Would edit {letters}." if dry_run else f"Edited {letters}.")
    for count, words in (
        (report.unchanged, "left unchanged: the change does not apply"),
        (report.duplicate, "not edited: the run already has such a task"),
        (report.changed, "not edited: replayed, dropped or changed meanwhile"),
        (report.invalid, "not edited: the new task is not valid"),
    ):
        if count:
            say(f"{count:,} {words}.")


def _ids(report: EditReport, ids: Sequence[str] | None) -> str:
    """Return the ids for a replay of what was edited, if there are few."""
    if not ids or report.edited > len(report.differences):
        return ""
    return "".join(f" {one.new_id}" for one in report.differences)
