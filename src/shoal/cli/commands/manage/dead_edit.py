"""`shoal dead edit`: change dead letters by options, or one of them in your editor."""

import getpass
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import click
import msgspec
import typer

from shoal.cli.configuration import current_project
from shoal.cli.console import confirm, counted, put_json, say
from shoal.cli.exits import Exit
from shoal.cli.open_queue import with_existing_queue, with_run
from shoal.cli.options import common
from shoal.core.errors import InvalidInput
from shoal.core.model import DeadFilter, DeadLetter
from shoal.core.values import hint
from shoal.fleet.build_job import job_of_run, load, make_job
from shoal.fleet.command_hints import command_on
from shoal.fleet.run.letters import EditReport, check_step, edit_letters, read_change
from shoal.fleet.status.letter_ids import find_letter
from shoal.fleet.status.rows import fields_of
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
    where = DeadFilter(step=from_step, host=host, error=error)
    options: dict[str, Any] = {
        "url": url,
        "url_replace": url_replace,
        "step": step,
        "set_payload": _payload(set_payload or ()),
        "headers": _headers(header or ()),
        "method": method,
        "body": body,
        "priority": priority,
    }
    given = {name: value for name, value in options.items() if value not in (None, {})}
    if url and len(ids or ()) != 1:
        raise InvalidInput("--url is for one letter; name its ID. To change many, use --url-replace OLD NEW.")
    if not given:
        if len(ids or ()) != 1:
            raise InvalidInput("Nothing to change. Give an option such as --url-replace, or name one ID.")
        given = _in_editor(queue, run_id, (ids or [""])[0])
        if not given:
            say("Nothing was changed.")
            return
    job = _EditJob(queue, run_id, given, ids or None, where, scraper)
    if not (ids or yes or dry_run):
        preview = job.run(dry_run=True)
        _show(preview)
        if preview.edited:
            letters = counted(preview.edited, "dead letter")
            confirm(f"Edit {letters}?")
    report = job.run(dry_run=dry_run)
    if as_json:
        put_json({"run_id": run_id, "dry_run": dry_run, **fields_of(report)})
    else:
        if ids or yes or dry_run:
            _show(report)
        _say_result(report, dry_run)
        if report.edited and not dry_run:
            say(f"Try again:  {command_on(queue, f'dead replay {run_id}{_ids(report, ids)}')}")
    if report.duplicate or report.changed or report.invalid:
        raise typer.Exit(Exit.PARTIAL)


class _EditJob:
    """One change of some letters, to preview and to apply."""

    def __init__(
        self,
        url: str,
        run_id: str,
        given: Mapping[str, Any],
        ids: Sequence[str] | None,
        where: "DeadFilter",
        scraper: str | None,
    ) -> None:
        self._url, self._run_id, self._change = url, run_id, read_change(given)
        self._ids, self._where, self._scraper = ids, where, scraper

    def run(self, *, dry_run: bool) -> "EditReport":
        """Apply the change, or only report what it would do."""
        return with_existing_queue(self._url, lambda opened: self._edit(opened, dry_run))

    async def _edit(self, queue: "Queue", dry_run: bool) -> "EditReport":
        run = await queue.run(self._run_id)
        await check_step(queue, run, self._change.step, self._job_of)
        return await edit_letters(
            queue,
            self._run_id,
            self._change,
            ids=self._ids,
            where=self._where,
            by=_editor_name(),
            dry_run=dry_run,
        )

    def _job_of(self, run: Any) -> Any:

        project = current_project()
        if self._scraper:
            return make_job(self._scraper, load(project, self._scraper), queue_url=self._url)
        return job_of_run(project, self._url, run)


def _editor_name() -> str:
    """Return the name of the user for the history of the letters."""

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "cli"


def _payload(words: Sequence[str]) -> dict[str, Any]:
    """Read NAME=VALUE; a value that is not JSON is text."""

    found = dict[str, Any]()
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise InvalidInput(f"--set-payload must be NAME=VALUE, got {word!r}.")
        try:
            found[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            found[name] = value
    return found


def _headers(words: Sequence[str]) -> dict[str, str | None]:
    """Read 'NAME: VALUE'; no value removes the header."""

    found = dict[str, str | None]()
    for word in words:
        name, sign, value = word.partition(":")
        if not sign or not name.strip():
            # Without the value: it may be a secret.
            raise InvalidInput("--header must be 'NAME: VALUE', such as --header 'Accept: text/html'.")
        found[name.strip()] = value.strip() or None
    return found


def _in_editor(queue: str, run_id: str, letter_id: str) -> dict[str, Any]:
    """Open a letter as JSON in the user's editor, and return the fields that were changed."""

    letter = with_existing_queue(queue, lambda opened: find_letter(opened, run_id, letter_id))
    before = _as_document(letter)
    try:
        text = click.edit(_format(before), extension=".json")
    except click.ClickException as error:
        raise InvalidInput(f"Nothing was changed: {error.format_message()}") from None
    return {} if text is None else changes_in(before, text)


def _as_document(letter: "DeadLetter") -> dict[str, Any]:
    task = letter.task
    sent = task.request if task.request and task.request.post is not None else None
    return {
        "url": task.url,
        "step": task.step,
        "priority": task.priority,
        "payload": dict(task.payload),
        "headers": dict.fromkeys(task.request.headers, HIDDEN) if task.request else {},
        "method": sent.method if sent else "GET",
        # A body that is no text cannot be edited here.
        "body": _as_text(sent.post) if sent else None,
    }


def _as_text(body: bytes | None) -> str | None:
    try:
        return body.decode() if body is not None else None
    except UnicodeDecodeError:
        return None


def _format(document: Mapping[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def changes_in(before: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return the changed fields of an edited document; raises InvalidInput."""

    try:
        after = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"The edited letter is not a JSON object: {error}. Nothing was changed."
        ) from error
    for name in after:
        if name not in before:
            raise InvalidInput(f"A dead letter has no {name!r} to change. {hint(name, before)}")
    changed = {name: value for name, value in after.items() if value != before[name]}
    for name, kind in _FIELDS.items():
        if name in changed and not isinstance(changed[name], kind):
            raise InvalidInput(f"{name} must be {_KINDS[kind]}. Nothing was changed.")
    if "headers" in changed:
        old, new = before["headers"], changed["headers"]
        if not all(isinstance(value, str) for value in new.values()):
            raise InvalidInput("headers must be texts. Nothing was changed.")
        set_ = {name: value for name, value in new.items() if old.get(name) != value}
        changed["headers"] = dict.fromkeys(old.keys() - new.keys()) | set_
    return changed


_FIELDS = {"url": str, "step": str, "priority": int, "payload": dict, "headers": dict}
_FIELDS |= {"method": str, "body": str}
_KINDS: dict[type, str] = {str: "a text", int: "a whole number", dict: "an object"}


def _show(report: "EditReport") -> None:
    for one in report.differences:
        say(f"  {one.id}  {one.change.removeprefix('edited: ')}")
    if report.edited > len(report.differences):
        say(f"  … and {report.edited - len(report.differences):,} more")
    for reason in report.reasons:
        say(f"  not edited: {reason}")


def _say_result(report: "EditReport", dry_run: bool) -> None:
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


def _ids(report: "EditReport", ids: Sequence[str] | None) -> str:
    """Return the ids for a replay of what was edited, if there are few."""
    if not ids or report.edited > len(report.differences):
        return ""
    return "".join(f" {one.new_id}" for one in report.differences)
