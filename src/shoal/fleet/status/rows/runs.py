"""The rows of runs."""

from dataclasses import dataclass
from typing import Any

from shoal.fleet.status.rows.row import Row, TableColumns
from shoal.queue.contract import StoreSize


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
    outcome: str | None  # once it has ended: complete, partial, suspicious …
    reason: str | None  # why it ended with tasks remaining
    started_at: str
    duration_seconds: int | None  # until workers were last at work on it; None if none were


# The fields of the last base come first.
@dataclass(kw_only=True)
class RunRow(CountsRow, _RunFields):
    """A run, in a list."""

    columns = TableColumns(
        (
            *("run_id", "scraper", "state", "outcome", "remaining", "completed", "dead", "items"),
            *("started_at", "duration"),
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
class FindingRow(Row):
    """What is not as expected in the items of a run, with an item of the run before and one of it."""

    kind: str
    text: str
    strict: bool
    step: str | None
    field: str | None
    since: str | None
    then: Any
    now: Any


@dataclass(kw_only=True)
class RunStatusRow(RunInOverview):
    """A run, with counts by step and by partition."""

    outcome_reason: str | None
    findings: list[FindingRow]
    compared_with: list[str]  # earlier runs, the newest first
    pages: int
    steps: dict[str, CountsRow]
    partitions: dict[str, CountsRow]
    not_followed: dict[str, SkippedLinksRow]
    missing: MissingPagesRow
    files: FilesRow
    hooks: dict[str, HookRow]
    scraper_stats: dict[str, Any]
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
