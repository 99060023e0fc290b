"""The rows of tasks and records, and of items, rejects and the changes between two runs."""

from dataclasses import dataclass
from typing import Any

import msgspec

from shoal.core.text import shorten
from shoal.fleet.status.rows.row import FOLDS, Row, RowOfRun, TableColumns

MAX_SHOWN_VALUE = 100  # characters of a changed value in a table


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
class RunItemRow(ItemRow, RowOfRun):
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


@dataclass(kw_only=True)
class PlannedPageRow(Row):
    """A page that the next run would fetch again."""

    columns = TableColumns(
        ("reason", "url", "age", "interval", "visits", "changes"), drops=("visits", "changes", "interval")
    )
    reason: str  # new, date or due
    step: str
    url: str | None
    age_seconds: float | None  # of its last fetch
    interval_seconds: float | None
    visits: int
    changes: int  # of these visits


@dataclass(kw_only=True)
class RecrawlPlanReport(RowOfRun):
    """What the next run after this one would fetch again, if it began now."""

    scraper: str
    shortest_seconds: float
    longest_seconds: float
    revisit_pages: int | None
    known: int  # pages
    fetch: int  # how many of them
    reasons: dict[str, int]  # pages by reason: new, date, due, over_budget, not_due
    pages: list[PlannedPageRow]  # the first of those to fetch, the most overdue first


def _value_text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return shorten(text, MAX_SHOWN_VALUE)


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
