"""Which columns of a table, or fields of a record, become which part of a task."""

from collections.abc import Sequence
from dataclasses import dataclass

NO_URL = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The column for each part of a task, by name or by number from 1; for JSON lines, the field.

    `url` defaults to the column called url, link or href, or else the only one; "-" means that no column
    holds a URL, so each row is a payload. `payload` names columns, or True for all columns not named here;
    by default a table gives no payload, and a record gives all its other fields.
    """

    url: str | int | None = None
    partition: str | int | None = None
    priority: str | int | None = None
    key: str | int | None = None
    payload: bool | Sequence[str | int] | None = None
    delimiter: str | None = None


DEFAULT_COLUMNS = Columns()
