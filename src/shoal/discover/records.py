"""JSON lines: objects with the fields of a task, or plain URLs."""

from collections.abc import Iterator
from typing import Any

import msgspec

from shoal.core.errors import InvalidUrl
from shoal.core.model import Task
from shoal.discover.lines import Lines, LongLine
from shoal.discover.source import Found, Refusal, checked, refused, shown
from shoal.discover.values import read_priority, read_text, read_ttl

FIELDS = frozenset({"url", "payload", "key", "partition", "priority", "step", "ttl"})

_decode = msgspec.json.Decoder().decode


def read_records(lines: Lines, step: str) -> Iterator[Found]:
    """Yield what each line of JSON asks for; empty lines are passed over."""
    for line in lines:
        text = line.strip().lstrip("\ufeff")
        if isinstance(line, LongLine):
            yield Refusal(lines.where, shown(text), LongLine.reason)
        elif text:
            try:
                yield task_of(decoded(text), step)
            except (ValueError, InvalidUrl) as error:
                yield refused(lines.where, text, error)


def decoded(text: str) -> Any:
    """Return what a text of JSON stands for; raises ValueError."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error


def task_of(record: Any, step: str) -> Task:
    """Return the task that an object or a plain URL asks for; raises ValueError or InvalidUrl."""
    if isinstance(record, str):
        return Task(url=checked(record), step=step)
    if not isinstance(record, dict):
        raise ValueError('it must be a URL or an object such as {"url": "https://…"}')
    task = Task(payload=_payload(record), **{"step": step, **_fields(record)})
    if task.url is None and not task.payload:
        raise ValueError("it has neither a url nor a payload")
    return task


def _fields(record: dict[str, Any]) -> dict[str, Any]:
    return {
        name: read(record[name])
        for name, read in _READERS.items()
        if name in record and record[name] is not None
    }


def _payload(record: dict[str, Any]) -> dict[str, Any]:
    named = record.get("payload") or {}
    if not isinstance(named, dict):
        raise ValueError('payload must be an object such as {"page": 1}')
    # What the payload names itself stands for more than a field that happens to be there.
    return {name: value for name, value in record.items() if name not in FIELDS} | named


def _url(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("url must be text")
    return checked(value)


_READERS = {
    "url": _url,
    "key": lambda value: read_text("key", value),
    "partition": lambda value: read_text("partition", value),
    "priority": read_priority,
    "step": lambda value: read_text("step", value),
    "ttl": read_ttl,
}
