"""JSON lines: objects with the fields of a task, or plain URLs."""

from collections.abc import Iterator
from typing import Any

import msgspec

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.model import Task
from shoal.core.values import read_positive_duration, read_priority, read_text
from shoal.discover.columns import DEFAULT_COLUMNS, NO_URL, Columns
from shoal.discover.lines import Lines, LongLine
from shoal.discover.source import Found, Refusal, checked, refused, shown

RENAMED = ("url", "partition", "priority", "key")  # what other fields may give, if they are named

_decode = msgspec.json.Decoder().decode


def read_records(lines: Lines, step: str, columns: Columns = DEFAULT_COLUMNS) -> Iterator[Found]:
    """Yield what each line of JSON asks for; empty lines are passed over."""
    shape = Shape(columns)
    for line in lines:
        text = line.strip().lstrip("\ufeff")
        if isinstance(line, LongLine):
            yield Refusal(lines.where, shown(text), LongLine.reason)
        elif text:
            try:
                yield shape.task(decoded(text), step)
            except (ValueError, InvalidInput) as error:
                yield refused(lines.where, text, error)


def decoded(text: str) -> Any:
    """Return what a text of JSON stands for; raises ValueError."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error


class Shape:
    """Which field of a record gives which part of a task."""

    def __init__(self, columns: Columns = DEFAULT_COLUMNS) -> None:
        named = {name: getattr(columns, name) for name in RENAMED}
        self._named = {name: str(field) for name, field in named.items() if field is not None}
        self._parts = [
            (self._named.get(name, name), name, read)
            for name, read in _READERS.items()
            if (name, columns.url) != ("url", NO_URL)
        ]
        self._taken = {"payload", *(field for field, _, _ in self._parts)}
        self._payload = columns.payload

    def task(self, record: Any, step: str) -> Task:
        """Return the task that an object or a plain URL asks for; raises ValueError or InvalidInput."""
        if isinstance(record, str):
            return Task(url=checked(record), step=step)
        if not isinstance(record, dict):
            raise ValueError('it must be a URL or an object such as {"url": "https://…"}')
        task = Task(payload=self._payload_of(record), **{"step": step, **self._fields(record)})
        if task.url is None and not task.payload:
            raise ValueError("it has neither a url nor a payload")
        return task

    def _fields(self, record: dict[str, Any]) -> dict[str, Any]:
        return {
            name: read(field, self._plain(name, record[field]))
            for field, name, read in self._parts
            if record.get(field) is not None
        }

    def _plain(self, name: str, value: Any) -> Any:
        # A field that somebody else named may well hold its id as a number.
        return str(value) if name in self._named and type(value) is int else value

    def _payload_of(self, record: dict[str, Any]) -> dict[str, Any]:
        given = record.get("payload") or {}
        if not isinstance(given, dict):
            raise ValueError('payload must be an object such as {"page": 1}')
        if self._payload is False:
            return {}
        # What the payload names itself stands for more than a field that happens to be there.
        return self._chosen(record) | given

    def _chosen(self, record: dict[str, Any]) -> dict[str, Any]:
        if self._payload and not isinstance(self._payload, bool):
            return {str(name): record[str(name)] for name in self._payload if str(name) in record}
        return {name: value for name, value in record.items() if name not in self._taken}


def _url(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidSetting(key, "must be text")
    return checked(value)


_READERS = {
    "url": _url,
    "key": read_text,
    "partition": read_text,
    "priority": read_priority,
    "step": read_text,
    "ttl": read_positive_duration,
}
