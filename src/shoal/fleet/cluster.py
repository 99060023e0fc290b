"""What a project file says of a whole cluster: its coordinator, its workers, and where results go."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.core.events import read_level
from shoal.core.values import (
    hint,
    read_choice,
    read_flag,
    read_positive_duration,
    read_size,
    read_text,
    read_whole,
    read_words,
)
from shoal.fleet.logs import LogFormat
from shoal.fleet.metrics_server import read_address

PLACES = ("scraper", "run")  # what a file's name may hold in braces


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorPlan:
    """Which scrapers a coordinator runs; those with seeds, if none is named."""

    scrapers: tuple[str, ...] = ()
    resume: bool = True
    rejects: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersPlan:
    """How many workers each machine has, and what they work on."""

    count: int | None = None
    at_once: int | None = None
    slow_requests: int | None = None
    batch_size: int | None = None
    memory: int | None = None
    scrapers: tuple[str, ...] = ()
    steps: tuple[str, ...] | None = None
    partitions: tuple[str, ...] | None = None
    heartbeat: str | None = None
    metrics: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePlan:
    """Where items go when they have come: a name with {scraper} and {run} in it."""

    results: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsPlan:
    """Where each machine writes its logs, and what they are like."""

    folder: str | None = None
    format: str | None = None
    level: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The tables of a project file that say what the machines of a cluster do."""

    coordinator: CoordinatorPlan = CoordinatorPlan()
    workers: WorkersPlan = WorkersPlan()
    storage: StoragePlan = StoragePlan()
    logs: LogsPlan = LogsPlan()

    @classmethod
    def read(cls, file: str, data: Mapping[str, Any]) -> "Cluster":
        """Read the tables; an InvalidSetting names the file and the key."""
        return cls(
            coordinator=CoordinatorPlan(**_read(file, "coordinator", data)),
            workers=WorkersPlan(**_read(file, "workers", data)),
            storage=StoragePlan(**_read(file, "storage", data)),
            logs=LogsPlan(**_read(file, "logs", data)),
        )


NO_CLUSTER = Cluster()


def place_of(pattern: str, *, scraper: str, run: str) -> str:
    """Return the name of the file for one run."""
    return pattern.format(scraper=scraper, run=run)


def read_place(key: str, value: Any) -> str:
    """Read the name of a file, in which {scraper} and {run} may stand."""
    text = read_text(key, value)
    try:
        names = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    except ValueError as error:
        raise InvalidSetting(key, f"is broken: {error}; write {{{{ for {{") from error
    for name in names:
        if name not in PLACES:
            raise InvalidSetting(key, f"holds {{{name}}}. {hint(name, PLACES)}")
    return text


def _read(file: str, table: str, data: Mapping[str, Any]) -> dict[str, Any]:
    given, readers = data.get(table, {}), _TABLES[table]
    if not isinstance(given, dict):
        raise InvalidSetting(f"{file}: {table}", f"must be a table, got {given!r}")
    for key in given:
        if key not in readers:
            raise InvalidSetting(f"{file}: {table}.{key}", f"is not known. {hint(key, readers)}")
    return {key: readers[key](f"{file}: {table}.{key}", value) for key, value in given.items()}


def _number(key: str, value: Any) -> int:
    return read_whole(key, value, least=1)


def _number_or_none(key: str, value: Any) -> int:
    return read_whole(key, value, least=0)


def _checked(read: Callable[[str, Any], Any]) -> Callable[[str, Any], str]:
    """Return a reader of a text that is passed on as it is written, once it was seen to be right."""

    def reader(key: str, value: Any) -> str:
        read(key, value)
        return read_text(key, value)

    return reader


def _format(key: str, value: Any) -> str:
    return read_choice(key, value, [str(one) for one in LogFormat])


_TABLES: dict[str, dict[str, Callable[[str, Any], Any]]] = {
    "coordinator": {"scrapers": read_words, "resume": read_flag, "rejects": read_place},
    "workers": {
        "count": _number,
        "at_once": _number,
        "slow_requests": _number_or_none,
        "batch_size": _number,
        "memory": read_size,
        "scrapers": read_words,
        "steps": read_words,
        "partitions": read_words,
        "heartbeat": _checked(read_positive_duration),
        "metrics": _checked(read_address),
    },
    "storage": {"results": read_place},
    "logs": {"folder": read_text, "format": _format, "level": _checked(read_level)},
}
