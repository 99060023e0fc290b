"""Edits of dead letters: a change is applied to one letter, or to all that match, and counted."""

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from msgspec.structs import replace

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidInput, InvalidTask, InvalidUrl, RunConflict, ShoalError
from shoal.core.failures import error_text
from shoal.core.model import NOTHING, DeadFilter, DeadLetter, Run, Task
from shoal.core.redact import redacted
from shoal.core.request_options import HEAD, RequestOptions
from shoal.core.secrets import without_secrets
from shoal.core.text import shorten
from shoal.core.urls import canonical, host_of
from shoal.core.values import hint
from shoal.fleet.job import Job
from shoal.fleet.status.find import find_letter, whole_ids
from shoal.queue.contract import EditFate, LetterEdit, Queue, QueueReports
from shoal.queue.intake import task_id
from shoal.worker.failures.pages import move_failed_pages

BATCH = 200
MAX_SHOWN = 20  # changes and refusals that a report lists
MAX_EDITOR = 100  # characters of the name of who edits
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterChange:
    """What to change in dead letters; what is not given stays.

    `url_replace` replaces a part of the URL, `payload` the whole payload, and `set_payload` some of its
    fields. A header that is None is removed. A body makes a GET a POST; the methods GET and HEAD drop it.
    A URL of another host, or one that leaves https, removes the secret headers that are not given again.
    """

    url: str | None = None
    url_replace: tuple[str, str] | None = None
    step: str | None = None
    payload: Mapping[str, Any] | None = None
    set_payload: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    headers: Mapping[str, str | None] = field(default_factory=lambda: NOTHING)
    priority: int | None = None
    method: str | None = None
    body: str | bytes | None = field(default=None, repr=False)  # may hold a secret

    def __post_init__(self) -> None:
        if self.payload is None and all(getattr(self, name) in (None, NOTHING) for name in FIELDS):
            raise InvalidInput(
                "Nothing to change. Give a URL, a step, a payload, a header, a method, a body or a priority."
            )
        if self.url is not None and self.url_replace is not None:
            raise InvalidInput("A new URL and a replacement in the URL cannot be combined; give one of them.")
        if self.url_replace is not None and not self.url_replace[0]:
            raise InvalidInput("The text to replace in the URL is empty.")
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name) or (value is not None and not value.isprintable()):
                raise InvalidInput(f"Not a header: {shorten(repr(name))}. Write it as 'Name: value'.")
        RequestOptions.read(method=self.method, body=self._body)

    def apply(self, task: Task) -> Task:
        """Return the changed task, which may be equal to the given one."""
        payload = dict(task.payload if self.payload is None else self.payload) | dict(self.set_payload)
        url = self._url(task.url)
        return replace(
            task,
            url=url,
            step=task.step if self.step is None else self.step,
            payload=payload,
            priority=task.priority if self.priority is None else self.priority,
            request=self._request(_request_for(task, url)),
        )

    def _url(self, url: str | None) -> str | None:
        if self.url_replace and url is not None:
            return url.replace(*self.url_replace)
        return url if self.url is None else self.url

    @property
    def _body(self) -> bytes | None:
        return self.body.encode() if isinstance(self.body, str) else self.body

    def _request(self, request: RequestOptions | None) -> RequestOptions | None:
        if not self.headers and self.method is None and self.body is None:
            return request
        body, old = self._body, request or RequestOptions()
        method = self.method and self.method.upper()
        if method is None and old.post is not None and not (body and old.method == HEAD):
            method = old.method
        if body is None and method not in ("GET", HEAD):
            body = old.post
        return RequestOptions.read(method=method, headers=self._merge_headers(old.headers), body=body)

    def _merge_headers(self, old: Mapping[str, str]) -> dict[str, str]:
        changed = {name.lower() for name in self.headers}
        kept = {name: value for name, value in old.items() if name.lower() not in changed}
        return kept | {name.lower(): value for name, value in self.headers.items() if value is not None}


def _request_for(task: Task, url: str | None) -> RequestOptions | None:
    """Return a task's request for another URL: who edits it may not see its secrets."""
    old, request = task.url, task.request
    if not (old and url and request and request.headers) or _may_keep_secrets(old, url):
        return request
    method = None if request.post is None else request.method
    return RequestOptions.read(method=method, headers=without_secrets(request.headers), body=request.post)


def _may_keep_secrets(old: str, new: str) -> bool:
    try:
        is_same = host_of(old) == host_of(new)
    except InvalidUrl:
        return False
    return is_same and (canonical(new).startswith("https:") or not canonical(old).startswith("https:"))


FIELDS = tuple(one.name for one in fields(LetterChange))


def read_change(given: Mapping[str, Any]) -> LetterChange:
    """Return the change with these fields; raises InvalidInput for an unknown one."""
    for name in given:
        if name not in FIELDS:
            raise InvalidInput(f"A dead letter has no {shorten(name)!r} to change. {hint(name, FIELDS)}")
    return LetterChange(**given)


def read_headers(texts: Iterable[str]) -> dict[str, str | None]:
    """Read 'NAME: VALUE' from each text; no value removes the header."""
    found = dict[str, str | None]()
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            # Without the text: it may be a secret.
            raise InvalidInput("Nothing was changed: a header must be 'NAME: VALUE', as 'Accept: text/html'.")
        found[name.strip()] = value.strip() or None
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterDifference:
    """A dead letter before and after its edit: its ids, and what differs in words, without secrets."""

    id: str
    new_id: str
    change: str


@dataclass(slots=True)
class EditReport:
    """The result of editing dead letters; of a dry run, what would be done."""

    edited: int = 0
    unchanged: int = 0  # the change does not apply to them
    duplicate: int = 0  # the run already has the task that they would become
    changed: int = 0  # they were replayed, dropped or edited meanwhile, or do not exist
    invalid: int = 0  # the new task cannot be queued
    differences: list[LetterDifference] = field(default_factory=list)  # the first ones
    reasons: list[str] = field(default_factory=list)  # of the first refusals

    def refuse(self, letter: DeadLetter, reason: str) -> None:
        """List why a letter was not edited, if there is room."""
        if len(self.reasons) < MAX_SHOWN:
            self.reasons.append(f"{letter.id}: {reason}")


async def edit_letters(
    queue: Queue,
    run_id: str,
    change: LetterChange,
    *,
    ids: Sequence[str] | None = None,
    where: DeadFilter = DeadFilter(),
    by: str,
    dry_run: bool = False,
) -> EditReport:
    """Edit the dead letters with these ids, or all that match, in batches; a dry run only reports."""
    run, report, batch = await queue.run(run_id), EditReport(), list[LetterEdit]()
    ids = None if ids is None else await whole_ids(queue, run_id, ids)
    found = 0
    async for letter in queue.dead(run_id, where, ids=ids):
        found += 1
        try:
            edit = _edit(run, letter, change, by)
        except InvalidTask as error:
            report.invalid += 1
            report.refuse(letter, error.reason)
            continue
        if edit:
            batch.append(edit)
        else:
            report.unchanged += 1
        if len(batch) >= BATCH:
            await _write(queue, run, batch, report, dry_run)
            batch = []
    await _write(queue, run, batch, report, dry_run)
    report.changed += len(ids) - found if ids is not None else 0
    return report


async def edit_letter(
    queue: Queue, run_id: str, letter_id: str, change: LetterChange, *, by: str
) -> DeadLetter:
    """Edit one dead letter and return it.

    Raises UnknownLetter, InvalidTask, and RunConflict if it has changed meanwhile or is a duplicate.
    """
    run, letter = await queue.run(run_id), await find_letter(queue, run_id, letter_id)
    edit = _edit(run, letter, change, by)
    if edit is None:
        return letter
    report = EditReport()
    await _write(queue, run, [edit], report, dry_run=False)
    if report.duplicate:
        drop = shoal_command(f"dead drop {run_id} {letter.id}")
        raise RunConflict(run_id, f"{DUPLICATE}. Drop the letter: {drop}")
    if report.changed:
        look = shoal_command(f"dead list {run_id}")
        raise RunConflict(run_id, f"changed the letter meanwhile. Look at it: {look}")
    return await find_letter(queue, run_id, task_id(run, edit.task))


async def check_step(queue: QueueReports, run: Run, step: str | None, job_of: Callable[[Run], Job]) -> None:
    """Raise InvalidInput if the scraper has no such step; if it is not known here, if the run has none."""
    if step is None:
        return
    try:
        steps: Collection[str] = (await asyncio.to_thread(job_of, run)).scraper.steps
        more = ""
    except ShoalError:
        steps = (await queue.stats(run.id)).steps
        more = " Only steps that the run has used are known here; to name the scraper: --scraper FILE."
    if step not in steps:
        raise InvalidInput(f"{run.scraper!r} has no step {shorten(repr(step))}. {hint(step, steps)}{more}")


DUPLICATE = "already has the task that the letter would become"


def _edit(run: Run, letter: DeadLetter, change: LetterChange, by: str) -> LetterEdit | None:
    """Return the edit of a letter, None if nothing changes; raises InvalidTask."""
    task = change.apply(letter.task)
    task_id(run, task)
    if task == letter.task:
        return None
    return LetterEdit(letter=letter, task=task, by=_name(by), note=_note(letter.task, task))


async def _write(
    queue: Queue, run: Run, edits: Sequence[LetterEdit], report: EditReport, dry_run: bool
) -> None:
    fates = await _foresee(queue, run, edits) if dry_run else await queue.edit(run.id, edits)
    if not dry_run:
        edited = [edit for edit, fate in zip(edits, fates, strict=True) if fate is EditFate.EDITED]
        await move_failed_pages(queue, run.id, {one.letter.id: task_id(run, one.task) for one in edited})
    for edit, fate in zip(edits, fates, strict=True):
        match fate:
            case EditFate.EDITED:
                report.edited += 1
                if len(report.differences) < MAX_SHOWN:
                    new_id = task_id(run, edit.task)
                    report.differences.append(
                        LetterDifference(id=edit.letter.id, new_id=new_id, change=edit.note)
                    )
            case EditFate.DUPLICATE:
                report.duplicate += 1
                report.refuse(edit.letter, f"the run {DUPLICATE}")
            case EditFate.CHANGED:
                report.changed += 1
                report.refuse(edit.letter, "it was replayed, dropped or edited meanwhile")


async def _foresee(queue: QueueReports, run: Run, edits: Sequence[LetterEdit]) -> list[EditFate]:
    """Return the fates that the edits of a dry run would have now."""
    ids = [task_id(run, edit.task) for edit in edits]
    taken = await queue.entered(run.id, ids)
    fates = list[EditFate]()
    for edit, new_id in zip(edits, ids, strict=True):
        is_taken = new_id in taken and new_id != edit.letter.id
        fates.append(EditFate.DUPLICATE if is_taken else EditFate.EDITED)
        taken.add(new_id)
    return fates


def _note(old: Task, new: Task) -> str:
    """Return what differs in words: values of URL, step and priority, names of payload fields and headers."""
    words = [
        f"{name} {before if before is not None else 'none'} → {after if after is not None else 'none'}"
        for name, before, after in (
            ("url", old.url, new.url),
            ("step", old.step, new.step),
            ("priority", old.priority, new.priority),
            ("method", method_of(old), method_of(new)),
        )
        if before != after
    ]
    if names := _changed(old.payload, new.payload):
        words.append(f"payload {names}")
    if names := _changed(_headers(old), _headers(new)):
        words.append(f"headers {names}")
    if (old.request and old.request.post) != (new.request and new.request.post):
        words.append("body")  # which may hold a secret
    return error_text(redacted(f"edited: {'; '.join(words)}"))


def method_of(task: Task) -> str:
    return task.request.method if task.request and task.request.post is not None else "GET"


def _headers(task: Task) -> Mapping[str, str]:
    return task.request.headers if task.request else NOTHING


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return the names whose values differ."""
    names = sorted({*old, *new})
    return ", ".join(shorten(name, 40) for name in names if old.get(name, ...) != new.get(name, ...))


def _name(by: str) -> str:
    return error_text(by)[:MAX_EDITOR] or "somebody"
