"""Times as the file holds them: microseconds, a moment counted from 1970 in UTC."""

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
FOREVER = 1 << 60  # so that a moment and a few durations still fit into 64 bits


def micros(duration: timedelta) -> int:
    """Return a duration as a number."""
    return max(-FOREVER, min(duration // MICROSECOND, FOREVER))


def optional_micros(duration: timedelta | None) -> int | None:
    return None if duration is None else micros(duration)


def duration(count: int) -> timedelta:
    """Return a number as a duration."""
    return timedelta(microseconds=count)


def optional_duration(count: int | None) -> timedelta | None:
    return None if count is None else duration(count)


def since_epoch(moment: datetime) -> int:
    """Return an aware datetime as a number."""
    return (moment - EPOCH) // MICROSECOND


def moment(count: int) -> datetime:
    """Return a number as a datetime in UTC."""
    return EPOCH + timedelta(microseconds=count)
