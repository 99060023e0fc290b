"""The rows of every report: what `--json` prints, what the API returns, and the columns of its table.

A field is declared once, here, under its public name. The API describes these classes in its schema, and
`shoal … --json` writes them as they are.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import msgspec

from shoal.core.errors import ShoalError
from shoal.core.model import (
    DeadLetter,
)
from shoal.core.text import shorten
from shoal.queue.contract import StoreSize
from shoal.scrape.scraper import INVALID_SEED
from shoal.scrape.settings.scraper import SETTINGS, ScraperSettings
from shoal.worker.failures.pages import FailedPage

if TYPE_CHECKING:  # above this package
    from shoal.fleet.project.file import ProjectScraper

MAX_LISTED_PAYLOAD = 2_000  # bytes of a payload that a list shows
MAX_SHOWN_PAYLOAD = 60  # characters of one in a table
MAX_SHOWN_VALUE = 100  # characters of a changed value in a table
MAX_HOSTS_SHOWN = 3  # that block a proxy, in a table
FOLDS = ("url", "error", "info", "says", "reason", "data", "why")


class TableColumns(NamedTuple):
    """The columns of a report's table; in a narrow terminal `drops` are left out in order, `folds` wrap.

    A column without a field of its name shows the field NAME_seconds as a duration, or NAME_bytes as a size.
    """

    names: Sequence[str]
    drops: Sequence[str] = ()
    folds: Collection[str] = FOLDS


# Not frozen: that costs every command 25 ms, and a row lives until it is written.
@dataclass(kw_only=True)
class Row:
    """A row of a report; its fields are those of the JSON."""

    columns: ClassVar[TableColumns] = TableColumns(())
    # Every field is in every response, also one with a default.
    __pydantic_config__: ClassVar[Mapping[str, bool]] = {"json_schema_serialization_defaults_required": True}

    @classmethod
    def of(cls, *sources: object, **given: Any) -> Self:
        """Return a row with the given fields, and each other one from the first source that has it."""
        found = {
            each.name: source
            for each in fields(cls)
            for source in reversed(sources)
            if hasattr(source, each.name)
        }
        return cls(**{name: _plain(getattr(source, name)) for name, source in found.items()} | given)

    def cells(self) -> dict[str, Any]:
        """Return what a table shows instead of the fields, by column."""
        return {}


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: a time as text to the second, a word as text, a mapping as a dict."""
    match value:
        case datetime():
            return value.isoformat(timespec="seconds")
        case str():
            return str(value)
        case Mapping():
            return dict(value)
        case tuple():
            return list(value)
        case _:
            return value


def fields_of(row: Any) -> dict[str, Any]:
    """Return the fields of a row by name; those of rows inside it stay rows."""
    return {each.name: getattr(row, each.name) for each in fields(row)}


def as_json(row: Any) -> dict[str, Any]:
    """Return a row as JSON: dicts, lists, texts and numbers."""
    found: dict[str, Any] = msgspec.to_builtins(row)
    return found


@dataclass(kw_only=True)
class CountsRow(Row):
    """Task counts by state, and what the tasks yielded."""

    pending: int
    delayed: int
    leased: int
    completed: int
    dead: int
    expired: int
    dropped: int
    remaining: int
    items: int
    rejected: int


@dataclass(kw_only=True)
class _RunFields(Row):
    run_id: str
    scraper: str
    state: str
    reason: str | None  # why it ended with tasks remaining
    started_at: str
    duration_seconds: int | None  # until workers were last at work on it; None if none were


# The fields of the last base come first.
@dataclass(kw_only=True)
class RunRow(CountsRow, _RunFields):
    """A run, in a list."""

    columns = TableColumns(
        (
            *("run_id", "scraper", "state", "remaining", "completed", "dead", "items", "started_at"),
            "duration",
        ),
        drops=("started_at", "duration", "scraper", "dead", "items", "completed"),
    )


@dataclass(kw_only=True)
class RunInOverview(CountsRow, _RunFields):
    """A run with its current rate; `lost` are tasks that its store no longer has."""

    lost: int
    rate: float
    eta_seconds: int | None


@dataclass(kw_only=True)
class SkippedLinksRow(Row):
    """Links that were not followed for one particular reason."""

    count: int
    example: str | None
    option: str | None


@dataclass(kw_only=True)
class MissingPagesRow(Row):
    """Pages that links led to and that do not exist."""

    count: int
    examples: list[str]


@dataclass(kw_only=True)
class FilesRow(Row):
    """Downloaded files; `known` were stored before by this run, and `refused` is by reason."""

    stored: int
    bytes: int
    unchanged: int
    known: int
    refused: dict[str, int]


@dataclass(kw_only=True)
class HookRow(Row):
    """The hooks of one kind of a run: how far they are, and which of them is running or has failed."""

    state: str
    token: int
    process: str
    hook: str | None
    error: str | None


@dataclass(kw_only=True)
class RunStatusRow(RunInOverview):
    """A run, with counts by step and by partition."""

    pages: int
    steps: dict[str, CountsRow]
    partitions: dict[str, CountsRow]
    not_followed: dict[str, SkippedLinksRow]
    missing: MissingPagesRow
    files: FilesRow
    hooks: dict[str, HookRow]
    lost_counts: bool
    unserved: dict[str, int]


@dataclass(kw_only=True)
class RunReport(RunStatusRow):
    """A run with all that is known about it, and the size of the queue's store."""

    store: StoreSize


@dataclass(kw_only=True)
class RunStateRow(Row):
    """A run and its new state."""

    run_id: str
    state: str


@dataclass(kw_only=True)
class WorkerRow(Row):
    """A worker, as its heartbeats report it."""

    columns = TableColumns(
        (
            *("worker_id", "run_id", "state", "steps", "partitions", "leased", "completed", "failed"),
            *("items", "last_hour", "memory", "last_beat"),
        ),
        drops=("last_hour", "partitions", "steps", "items", "memory", "failed", "last_beat", "run_id"),
        folds=("steps", "partitions"),
    )
    worker_id: str
    run_id: str
    state: str
    steps: Any
    partitions: Any
    leased: int
    completed: int
    failed: int
    items: int
    last_hour: int | None
    memory_bytes: int | None
    last_beat_seconds: float
    info: dict[str, Any]

    def cells(self) -> dict[str, Any]:
        """Return the steps and partitions in words."""
        return {"steps": join_names(self.steps), "partitions": join_names(self.partitions)}


def join_names(names: Any) -> str:
    """Return a list of names in one text; "all" if there is none."""
    return ", ".join(names) if isinstance(names, list) else names or "all"


@dataclass(kw_only=True)
class _HostFields(Row):
    host: str


@dataclass(kw_only=True)
class HostRow(CountsRow, _HostFields):
    """A host with its gap and pause."""

    columns = TableColumns(
        ("host", "pending", "delayed", "leased", "completed", "dead", "delay_seconds", "paused_seconds"),
        drops=("delayed", "leased"),
        folds=("host",),
    )
    delay_seconds: float | None
    paused_seconds: float | None


@dataclass(kw_only=True)
class OverviewRow(Row):
    """Summary of the whole queue."""

    runs: list[RunInOverview]
    workers: list[WorkerRow]
    hosts: list[HostRow]
    errors: dict[str, int]
    store: StoreSize | None


@dataclass(kw_only=True)
class ItemRow(Row):
    """An item with where and when it was found."""

    id: int
    url: str | None
    step: str
    task_id: str
    stored_at: str
    data: Any


@dataclass(kw_only=True)
class _OfRun(Row):
    run_id: str


@dataclass(kw_only=True)
class RunItemRow(ItemRow, _OfRun):
    """An item with its run."""

    columns = TableColumns(("run_id", "step", "stored_at", "url", "data"), drops=("url", "stored_at"))


@dataclass(kw_only=True)
class RejectRow(ItemRow):
    """A reject with its reason."""

    columns = TableColumns(("id", "step", "reason", "url", "data"), drops=("data", "step"))
    reason: str


@dataclass(kw_only=True)
class ChangeRow(Row):
    """A page that is new, changed or gone since its last fetch; of a changed one, a field that differs."""

    columns = TableColumns(
        ("change", "url", "item", "field", "old", "new", "info"),
        drops=("item", "info"),
        folds=(*FOLDS, "old", "new"),
    )
    change: str  # new, changed, gone or unchanged
    step: str | None
    url: str | None
    item: int | None  # its position on the page
    field: str | None  # none for an item that was added or removed
    old: Any
    new: Any
    info: str

    def cells(self) -> dict[str, Any]:
        """Return the beginning of the values."""
        return {"old": _value_text(self.old), "new": _value_text(self.new), "info": self.info or None}


def _value_text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return shorten(text, MAX_SHOWN_VALUE)


@dataclass(kw_only=True)
class DeadLetterRow(Row):
    """A dead letter, in a list."""

    # Most letters have neither a key nor a payload: `shoal dead list` adds their columns if one has.
    columns = TableColumns(
        ("id", "step", "url", "key", "payload", "attempts", "error"),
        drops=("attempts", "step", "payload", "key"),
    )
    id: str
    step: str
    url: str | None
    key: str | None
    payload: dict[str, Any] | str  # a large one as its size
    priority: int
    attempts: int
    error: str
    buried_at: str

    def cells(self) -> dict[str, Any]:
        """Return the beginning of the payload, and what an invalid seed was instead of its URL."""
        given = self.payload
        text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        cells = {"payload": shorten(text, MAX_SHOWN_PAYLOAD) if given else None}
        seed = "" if isinstance(given, str) else invalid_seed(self.step, given)
        return {**cells, "url": seed} if seed else cells


@dataclass(kw_only=True)
class RunLetterRow(DeadLetterRow, _OfRun):
    """A dead letter with its run."""

    columns = TableColumns(
        ("run_id", "id", "step", "url", "attempts", "error"), drops=("attempts", "step", "url")
    )


def invalid_seed(step: str, payload: Mapping[str, Any]) -> str:
    """Return the place and the text of a seed that could not be queued; empty for any other task."""
    return f"{payload.get('where')} {payload.get('text')}" if step == INVALID_SEED else ""


def letter_row(letter: DeadLetter) -> DeadLetterRow:
    """Return a dead letter for a list."""
    return DeadLetterRow.of(letter, letter.task, payload=short_payload(letter.task.payload))


def short_payload(payload: Mapping[str, Any]) -> dict[str, Any] | str:
    """Return a payload for a list; a large one as its size in words."""
    size = len(msgspec.json.encode(dict(payload))) if payload else 0
    return dict(payload) if size <= MAX_LISTED_PAYLOAD else f"{size:,} bytes"


@dataclass(kw_only=True)
class AttemptRow(Row):
    """One failed attempt."""

    columns = TableColumns(("attempt", "ended_at", "worker_id", "error"), drops=("worker_id", "ended_at"))
    attempt: int
    worker_id: str
    ended_at: str
    error: str
    traceback: str | None

    def cells(self) -> dict[str, Any]:
        """Return an edit as such."""
        return {"attempt": self.attempt or "edit"}


@dataclass(kw_only=True)
class FailedPageRow(Row):
    """The page that failed: its first part, if it was too large."""

    url: str
    status: int
    bytes: int
    cut: bool


@dataclass(kw_only=True)
class WholeLetterRow(DeadLetterRow):
    """A dead letter with its payload, its page and all attempts; an edit is attempt 0."""

    request: str | None
    traceback: str | None
    page: FailedPageRow | None
    history: list[AttemptRow]


def whole_letter_row(letter: DeadLetter, page: FailedPage | None) -> WholeLetterRow:
    """Return a dead letter with all that is known of it."""
    return WholeLetterRow.of(
        letter,
        letter.task,
        request=letter.task.request.words if letter.task.request else None,
        traceback=letter.traceback or None,
        page=FailedPageRow.of(page, bytes=page.size, cut=page.is_cut) if page else None,
        history=[
            AttemptRow.of(each, ended_at=each.ended_at.isoformat(), traceback=each.traceback or None)
            for each in letter.history
        ],
    )


@dataclass(kw_only=True)
class TaskRow(Row):
    """A task in its current state; some stores keep only the id of a completed one."""

    task_id: str
    step: str
    state: str
    url: str | None
    worker_id: str | None
    since: str | None
    attempt: int
    items: int | None
    key: str | None = None
    partition: str | None = None
    priority: int | None = None


@dataclass(kw_only=True)
class ExpiredTaskRow(Row):
    """A task whose TTL ran out."""

    task_id: str
    step: str
    url: str | None
    expired_at: str
    key: str | None = None
    partition: str | None = None
    priority: int | None = None


@dataclass(kw_only=True)
class StageRow(Row):
    """What became of a record in one step."""

    state: str
    worker_id: str | None
    since: str | None
    attempt: int
    items: int | None
    task_id: str


@dataclass(kw_only=True)
class RecordRow(Row):
    """The progress of a record through the steps."""

    record: str
    steps: dict[str, StageRow]


@dataclass(kw_only=True)
class PartitionRow(Row):
    """A partition: its remaining tasks and its owners."""

    columns = TableColumns(("partition", "pending", "leased", "done", "owner", "since"), folds=("owner",))
    partition: str
    pending: int
    delayed: int
    leased: int
    done: int
    dead: int
    owners: list[str]
    coming: str | None
    since_seconds: float | None

    def cells(self) -> dict[str, Any]:
        """Return what is pending in all, and the owner in words."""
        return {
            "partition": self.partition or None,
            "pending": self.pending + self.delayed,
            "owner": ", ".join(self.owners) or (f"waits for {self.coming}" if self.coming else None),
        }


@dataclass(kw_only=True)
class TokenRow(Row):
    """An API token by name, and its remaining quota."""

    columns = TableColumns(
        ("token", "state", "left", "limit", "resets_in", "reserved", "why"), drops=("reserved", "limit")
    )
    token: str
    state: str
    left: int | None
    limit: int | None
    resets_in_seconds: float | None
    reserved: int
    why: str | None
    runs: list[str]


@dataclass(kw_only=True)
class CacheUseRow(Row):
    """How many pages of a run were found in the cache, and how many were not."""

    columns = TableColumns(("run_id", "hits", "misses", "hit_rate"))
    run_id: str
    hits: int
    misses: int
    hit_rate: float

    def cells(self) -> dict[str, Any]:
        """Return the hit rate in percent."""
        return {"hit_rate": f"{self.hit_rate:.1%}"}


@dataclass(kw_only=True)
class CacheRow(Row):
    """The response cache, and its use by runs."""

    entries: int
    bytes: int
    oldest_seconds: float | None
    runs: list[CacheUseRow]


@dataclass(kw_only=True)
class ProxyRow(Row):
    """A proxy, as the whole fleet sees it."""

    columns = TableColumns(
        (
            *("proxy", "state", "pages", "success", "dead", "refused", "slow", "blocked", "seconds"),
            *("last_fault", "back_in", "blocked_by", "workers"),
        ),
        drops=("seconds", "slow", "refused", "dead", "last_fault", "blocked", "blocked_by", "workers"),
        folds=("proxy", "blocked_by", "last_fault", "workers"),
    )
    proxy: str
    state: str
    pages: int
    dead: int
    refused: int
    slow: int
    blocked: int
    seconds: float | None
    last_fault: str | None
    benched_for: str | None
    back_in_seconds: float | None
    blocked_by: list[str]
    success: float | None  # the part of its requests that returned a page
    workers: list[str]  # at work, and may use it

    def cells(self) -> dict[str, Any]:
        """Return the success rate, the time per page with two digits, and the first hosts and workers."""
        return {
            "success": f"{self.success:.0%}" if self.success is not None else None,
            "seconds": f"{self.seconds:.2f}" if self.seconds is not None else None,
            "blocked_by": _first(self.blocked_by),
            "workers": _first(self.workers),
        }


def _first(names: Sequence[str]) -> str | None:
    more = ", …" if len(names) > MAX_HOSTS_SHOWN else ""
    return ", ".join(names[:MAX_HOSTS_SHOWN]) + more or None


@dataclass(kw_only=True)
class StaleTaskRow(Row):
    """A task leased by a worker that may be gone."""

    task_id: str
    step: str
    url: str | None
    attempt: int
    since: str | None


@dataclass(kw_only=True)
class StaleRow(Row):
    """A worker that holds tasks and missed its heartbeats, or has held them for very long."""

    columns = TableColumns(
        ("worker_id", "run_id", "leases", "oldest", "silent", "why"), drops=("oldest", "silent", "run_id")
    )
    worker_id: str
    run_id: str
    leases: int
    oldest_seconds: float
    silent_seconds: float | None
    gone: bool
    why: str
    tasks: list[StaleTaskRow]


@dataclass(kw_only=True)
class ScraperRow(Row):
    """A project scraper; `says` is why it cannot be loaded."""

    columns = TableColumns(("name", "module", "mode", "steps", "says"))
    name: str
    module: str
    mode: str | None = None
    steps: str | None = None
    says: str | None = None
    scraper: str | None = None  # the name that its runs have
    settings: dict[str, Any] | None = None  # that differ from the defaults; durations in seconds
    seeded: bool | None = None  # whether the project or the scraper declares seeds
    args: list[str] | None = None  # the names of its arguments

    @classmethod
    def load(cls, entry: "ProjectScraper", folder: Path) -> Self:
        """Load a scraper of the project and describe it."""
        try:
            scraper = entry.load(folder)
        except ShoalError as error:
            return cls(name=entry.name, module=entry.module, says=str(error))
        return cls(
            name=entry.name,
            module=entry.module,
            mode=scraper.settings.mode,
            steps=", ".join(scraper.steps),
            scraper=scraper.name,
            settings=changed_settings(scraper.settings),
            seeded=bool(entry.seeds) or scraper.has_seeds,
            args=list(scraper.declared_args.names),
        )


def changed_settings(settings: "ScraperSettings") -> dict[str, Any]:
    """Return the settings that differ from the defaults, without those that may contain a secret."""
    default = type(settings)()
    found = {name: getattr(settings, name) for name, one in SETTINGS.items() if one.shown}
    return {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in found.items()
        if value != getattr(default, name)
    }
