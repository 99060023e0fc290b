"""Which columns of a table, or fields of a record, give which part of a task."""

from collections.abc import Sequence
from dataclasses import dataclass

NO_URL = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which column of a table gives what, each by name or by number from 1; of JSON lines, which field.

    `url` is by default the column called url, link or href, or else the only one; "-" means that none holds a
    URL, so that each row is a payload. `payload` names columns, or with True takes those that are not named
    here; by default a table gives no payload, and a record all its other fields.
    """

    url: str | int | None = None
    partition: str | int | None = None
    priority: str | int | None = None
    key: str | int | None = None
    payload: bool | Sequence[str | int] | None = None
    delimiter: str | None = None


DEFAULT_COLUMNS = Columns()
