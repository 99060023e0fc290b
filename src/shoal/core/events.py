"""Log events: a constant name and fields."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.core.values import hint


class Level(IntEnum):
    """Severity of an event; the numbers are those of Python's `logging`."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    OFF = 100  # nothing is logged


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A log event; `name` is one of the constants below, and `fields` holds the details."""

    at: float  # Unix time in seconds, by the clock of the machine it happened on
    level: int
    name: str
    fields: Mapping[str, Any] = {}


# What happens to workers
STARTED, ENDED, DIED, RESTARTED, GIVEN_UP = (
    "worker started",
    "worker ended",
    "worker died",
    "worker restarted",
    "worker given up",
)
STOPPING = "stopping"
RUN_BEGUN, RUN_ENDED = "run begun", "run ended"
# What happens to tasks and hosts
TASK_BEGUN, TASK_DONE, TASK_FAILED = "task begun", "task done", "task failed"
TASK_RELEASED, RESULT_REFUSED = "task released", "result refused"
LOOP_BLOCKED = "step blocks the loop"
STARTS_LATE = "starts are late"
HOST_SLOWED, HOST_PAUSED = "host slowed", "host paused"
# What happens to the queue
CLAIM_FAILED, SETTLE_FAILED, QUEUE_BACK, QUEUE_AWAY = (
    "claim failed",
    "settle failed",
    "queue is back",
    "waiting for the queue",
)
# What others say
STDOUT, LOG = "stdout", "log"

_EVENT = "shoal_event"  # the attribute of a log record that names its event


def as_event(name: str) -> dict[str, str]:
    """Return the `extra` of a log call that reports an event instead of a plain message."""
    return {_EVENT: name}


def event_of(record: object) -> str:
    """Return the event that a log record reports; `LOG` for any other message."""
    name = getattr(record, _EVENT, LOG)
    return name if isinstance(name, str) else LOG


def read_level(key: str, text: str) -> Level:
    """Read the name of a level; raises InvalidSetting."""
    names = [level.name.lower() for level in Level]
    if text.lower() not in names:
        raise InvalidSetting(key, f"is not a level: {text!r}. {hint(text.lower(), names)}")
    return Level[text.upper()]


def level_name(level: int) -> str:
    """Return the name of a level, by which logs are filtered."""
    return next((known.name.lower() for known in reversed(Level) if level >= known), "debug")
