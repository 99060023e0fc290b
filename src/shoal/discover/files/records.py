"""JSON lines: objects with the fields of a task, or plain URLs."""

from collections.abc import Iterator
from typing import Any

import msgspec

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.model import Task
from shoal.core.values import read_positive_duration, read_priority, read_text
from shoal.discover.files.lines import Lines, LongLine
from shoal.discover.files.table import DEFAULT_COLUMNS, NO_URL, Columns
from shoal.discover.source import Found, Refusal, check_url, make_refusal, shown

RENAMED = ("url", "partition", "priority", "key")  # parts that `Columns` may map to other fields

_decode = msgspec.json.Decoder().decode


def read_records(lines: Lines, step: str, columns: Columns = DEFAULT_COLUMNS) -> Iterator[Found]:
    """Yield the task or refusal of each line of JSON; empty lines are skipped."""
    shape = RecordShape(columns)
    for line in lines:
        text = line.strip().lstrip("\ufeff")
        if isinstance(line, LongLine):
            yield Refusal(lines.where, shown(text), LongLine.reason)
        elif text:
            try:
                yield shape.task(decode_json(text), step)
            except (ValueError, InvalidInput) as error:
                yield make_refusal(lines.where, text, error)


def decode_json(text: str) -> Any:
    """Decode JSON; raises ValueError."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error


class RecordShape:
    """Which field of a record becomes which part of a task."""

    def __init__(self, columns: Columns = DEFAULT_COLUMNS) -> None:
        named = {name: getattr(columns, name) for name in RENAMED}
        self._named = {name: str(field) for name, field in named.items() if field is not None}
        self._parts = [
            (self._named.get(name, name), name, read)
            for name, read in _READERS.items()
            if (name, columns.url) != ("url", NO_URL)
        ]
        self._reserved = {"payload", *(field for field, _, _ in self._parts)}
        self._payload = columns.payload

    def task(self, record: Any, step: str) -> Task:
        """Return the task of an object or a plain URL; raises ValueError or InvalidInput."""
        if isinstance(record, str):
            return Task(url=check_url(record), step=step)
        if not isinstance(record, dict):
            raise ValueError('it must be a URL or an object such as {"url": "https://…"}')
        task = Task(payload=self._read_payload(record), **{"step": step, **self._read_fields(record)})
        if task.url is None and not task.payload:
            raise ValueError("it has neither a url nor a payload")
        return task

    def _read_fields(self, record: dict[str, Any]) -> dict[str, Any]:
        return {
            name: read(field, self._to_text(name, record[field]))
            for field, name, read in self._parts
            if record.get(field) is not None
        }

    def _to_text(self, name: str, value: Any) -> Any:
        # A field chosen by the user may hold an id as a number.
        return str(value) if name in self._named and type(value) is int else value

    def _read_payload(self, record: dict[str, Any]) -> dict[str, Any]:
        given = record.get("payload") or {}
        if not isinstance(given, dict):
            raise ValueError('payload must be an object such as {"page": 1}')
        if self._payload is False:
            return {}
        # An explicit payload takes precedence over other fields of the record.
        return self._select_fields(record) | given

    def _select_fields(self, record: dict[str, Any]) -> dict[str, Any]:
        if self._payload and not isinstance(self._payload, bool):
            return {str(name): record[str(name)] for name in self._payload if str(name) in record}
        return {name: value for name, value in record.items() if name not in self._reserved}


def _read_url(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidSetting(key, "must be text")
    return check_url(value)


_READERS = {
    "url": _read_url,
    "key": read_text,
    "partition": read_text,
    "priority": read_priority,
    "step": read_text,
    "ttl": read_positive_duration,
}
