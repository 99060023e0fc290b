"""The rows of dead letters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from shoal.core.model import INVALID_SEED, DeadLetter
from shoal.core.text import shorten
from shoal.fleet.status.rows.row import Row, RowOfRun, TableColumns
from shoal.worker.failures.pages import FailedPage

MAX_LISTED_PAYLOAD = 2_000  # bytes of a payload that a list shows


MAX_SHOWN_PAYLOAD = 60  # characters of one in a table


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
class RunLetterRow(DeadLetterRow, RowOfRun):
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
