"""Convert values to and from their stored form: times, JSON, rows of tasks."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from shoal.core.model import ZERO, Task
from shoal.queue.intake import read_payload

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
FOREVER = 1 << 60  # microseconds; a time plus a few such durations still fits into 64 bits


def micros(duration: timedelta) -> int:
    """Return a duration in microseconds."""
    return max(-FOREVER, min(duration // MICROSECOND, FOREVER))


def optional_micros(duration: timedelta | None) -> int | None:
    return None if duration is None else micros(duration)


def duration(count: int) -> timedelta:
    """Return microseconds as a duration."""
    return timedelta(microseconds=count)


def optional_duration(count: int | None) -> timedelta | None:
    return None if count is None else duration(count)


def since_epoch(moment: datetime) -> int:
    """Return an aware datetime in microseconds since the epoch."""
    return (moment - EPOCH) // MICROSECOND


def moment(count: int) -> datetime:
    """Return microseconds since the epoch as a datetime in UTC."""
    return EPOCH + timedelta(microseconds=count)


_encode = msgspec.json.Encoder().encode


def as_json(value: Any) -> str:
    """Return plain values as one JSON text."""
    return _encode(value).decode()


def storable(text: str) -> str:
    """Return a text without characters that a database cannot store: NUL and lone surrogates."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()


NO_HOST = 0  # the host of tasks without a URL; it has no rate limit


class TaskRow(msgspec.Struct, array_like=True, frozen=True):
    """A task as a query returns it."""

    url: str | None
    step: str
    payload: str | None
    key: str | None
    partition: str
    priority: int
    ttl: int | None
    delay: int | None
    depth: int

    def task(self) -> Task:
        payload, options = read_payload(self.payload)
        return Task(
            url=self.url,
            step=self.step,
            payload=payload,
            key=self.key,
            partition=self.partition,
            priority=self.priority,
            ttl=optional_duration(self.ttl),
            delay=ZERO if self.delay is None else duration(self.delay),
            depth=self.depth,
            request=options,
        )
