"""Cluster settings of a project file: coordinator, workers, results and logs."""

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
from shoal.fleet.telemetry.logs import LogFormat
from shoal.fleet.telemetry.setup import read_address

PLACEHOLDERS = ("scraper", "run")  # allowed in file names, in braces


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """Which scrapers a coordinator runs; by default those with seeds."""

    scrapers: tuple[str, ...] = ()
    resume: bool = True
    rejects: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersSettings:
    """How many workers each machine runs, and what they work on."""

    count: int | None = None
    concurrency: int | None = None
    batch_size: int | None = None
    memory: int | None = None
    scrapers: tuple[str, ...] = ()
    steps: tuple[str, ...] | None = None
    partitions: tuple[str, ...] | None = None
    heartbeat: str | None = None
    metrics: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """Where items are written: a file name that may contain {scraper} and {run}."""

    results: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsSettings:
    """Where each machine writes its logs, their format and level."""

    folder: str | None = None
    format: str | None = None
    level: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The tables of a project file that configure the machines of a cluster."""

    coordinator: CoordinatorSettings = CoordinatorSettings()
    workers: WorkersSettings = WorkersSettings()
    storage: StorageSettings = StorageSettings()
    logs: LogsSettings = LogsSettings()

    @classmethod
    def read(cls, file: str, data: Mapping[str, Any]) -> "ClusterSettings":
        """Read the tables; an InvalidSetting names the file and the key."""
        return cls(
            coordinator=CoordinatorSettings(**_read(file, "coordinator", data)),
            workers=WorkersSettings(**_read(file, "workers", data)),
            storage=StorageSettings(**_read(file, "storage", data)),
            logs=LogsSettings(**_read(file, "logs", data)),
        )


NO_CLUSTER = ClusterSettings()


def fill_pattern(pattern: str, *, scraper: str, run: str) -> str:
    """Return the file name for one run."""
    return pattern.format(scraper=scraper, run=run)


def read_pattern(key: str, value: Any) -> str:
    """Read a file name that may contain {scraper} and {run}."""
    text = read_text(key, value)
    try:
        names = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    except ValueError as error:
        raise InvalidSetting(key, f"is invalid: {error}; write {{{{ for {{") from error
    for name in names:
        if name not in PLACEHOLDERS:
            raise InvalidSetting(key, f"contains {{{name}}}. {hint(name, PLACEHOLDERS)}")
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


def _checked(read: Callable[[str, Any], Any]) -> Callable[[str, Any], str]:
    """Return a reader that validates a text with `read`, and returns it unchanged."""

    def reader(key: str, value: Any) -> str:
        read(key, value)
        return read_text(key, value)

    return reader


def _format(key: str, value: Any) -> str:
    return read_choice(key, value, [str(one) for one in LogFormat])


_TABLES: dict[str, dict[str, Callable[[str, Any], Any]]] = {
    "coordinator": {"scrapers": read_words, "resume": read_flag, "rejects": read_pattern},
    "workers": {
        "count": _number,
        "concurrency": _number,
        "batch_size": _number,
        "memory": read_size,
        "scrapers": read_words,
        "steps": read_words,
        "partitions": read_words,
        "heartbeat": _checked(read_positive_duration),
        "metrics": _checked(read_address),
    },
    "storage": {"results": read_pattern},
    "logs": {"folder": read_text, "format": _format, "level": _checked(read_level)},
}
