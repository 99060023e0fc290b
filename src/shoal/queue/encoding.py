"""Values as stores hold them: times in microseconds, texts without NUL, names of counters."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta

from shoal.core.model import Counts

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
FOREVER = 1 << 60  # microseconds; a time plus a few such durations still fits into 64 bits

# The counters of tasks, in the order in which every store holds them.
COUNTER_NAMES = tuple(field.name for field in fields(Counts))


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


def storable(text: str) -> str:
    """Return a text without characters that a database cannot store: NUL and lone surrogates."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()
