"""Cluster settings of a project file: coordinator, workers, results and logs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from string import Formatter
from typing import Any, TypeVar

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
T = TypeVar("T")
Read = Callable[[str, Any], Any]


def setting(read: Read, default: Any = None) -> Any:
    """Declare a key of a table: how its value is read, and the value without it."""
    return field(default=default, metadata={"read": read})


def read_fields(kind: type[T], where: str, given: Any) -> T:
    """Read a table into a dataclass whose fields are its keys; an InvalidSetting names the key."""
    readers: dict[str, Read] = {each.name: each.metadata["read"] for each in fields(kind)}  # type: ignore[arg-type]
    if not isinstance(given, dict):
        raise InvalidSetting(where, f"must be a table, got {given!r}")
    for name in given:
        if name not in readers:
            raise InvalidSetting(f"{where}.{name}", f"is not known. {hint(name, readers)}")
    return kind(**{name: readers[name](f"{where}.{name}", value) for name, value in given.items()})


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


def read_count(key: str, value: Any) -> int:
    """Read a number of at least one."""
    return read_whole(key, value, least=1)


def _checked(read: Read) -> Callable[[str, Any], str]:
    """Return a reader that validates a text with `read`, and returns it unchanged."""

    def reader(key: str, value: Any) -> str:
        read(key, value)
        return read_text(key, value)

    return reader


def _format(key: str, value: Any) -> str:
    return read_choice(key, value, [str(one) for one in LogFormat])


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """Which scrapers a coordinator runs; by default those with seeds."""

    scrapers: tuple[str, ...] = setting(read_words, ())
    resume: bool = setting(read_flag, default=True)
    rejects: str | None = setting(read_pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersSettings:
    """How many workers each machine runs, and what they work on."""

    count: int | None = setting(read_count)
    concurrency: int | None = setting(read_count)
    batch_size: int | None = setting(read_count)
    memory: int | None = setting(read_size)
    scrapers: tuple[str, ...] = setting(read_words, ())
    steps: tuple[str, ...] | None = setting(read_words)
    partitions: tuple[str, ...] | None = setting(read_words)
    heartbeat: str | None = setting(_checked(read_positive_duration))
    metrics: str | None = setting(_checked(read_address))


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """Where items are written: a file name that may contain {scraper} and {run}."""

    results: str | None = setting(read_pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsSettings:
    """Where each machine writes its logs, their format and level."""

    folder: str | None = setting(read_text)
    format: str | None = setting(_format)
    level: str | None = setting(_checked(read_level))


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
        kinds = {each.name: type(each.default) for each in fields(cls)}
        return cls(
            **{name: read_fields(kind, f"{file}: {name}", data.get(name, {})) for name, kind in kinds.items()}
        )


NO_CLUSTER = ClusterSettings()
