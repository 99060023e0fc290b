"""The tables of a project file: coordinator, workers, results, logs, and what `shoal deploy` writes."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from string import Formatter
from typing import Any, TypeVar

from shoal.core.errors import InvalidSetting
from shoal.core.events import read_level
from shoal.core.values import (
    hint,
    read_choice,
    read_flag,
    read_host_port,
    read_positive_duration,
    read_size,
    read_text,
    read_whole,
    read_words,
)
from shoal.fleet.telemetry.logs import LogFormat

PLACEHOLDERS = ("scraper", "run")  # allowed in file names, in braces
_IMAGE = re.compile(r"[a-z0-9][\w.\-/:@]{0,254}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_SERVICE = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")  # a DNS label, with room for a prefix
TASKS_PER_WORKER = 1_000  # as in deploy/kubernetes/keda-metrics
# Those that a deployment has anyway.
RESERVED = (
    *("coordinator", "metrics", "migrate", "schedules", "web"),
    *("postgres", "pgbouncer", "redis", "rabbitmq"),
)
T = TypeVar("T")
Read = Callable[[str, Any], Any]


def setting(read: Read, default: Any = None) -> Any:
    """Declare a key of a table: how its value is read, and the value without it."""
    return field(default=default, metadata={"read": read})


def read_subtable(key: str, value: Any) -> dict[str, Any]:
    """Read a table whose keys are checked elsewhere."""
    if not isinstance(value, dict):
        raise InvalidSetting(key, f"must be a table, got {value!r}")
    return value


def read_fields(kind: type[T], where: str, given: Any) -> T:
    """Read a table into a dataclass whose fields are its keys; an InvalidSetting names the key."""
    readers: dict[str, Read] = {each.name: each.metadata["read"] for each in fields(kind)}  # type: ignore[arg-type]
    for name in read_subtable(where, given):
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


_count = partial(read_whole, least=1)
_replicas = partial(read_whole, least=0)
_format = partial(read_choice, known=[str(one) for one in LogFormat])
_architecture = partial(read_choice, known=("amd64", "arm64"))  # as Docker and Kubernetes name them


def _checked(read: Read) -> Callable[[str, Any], str]:
    """Return a reader that validates a text with `read`, and returns it unchanged."""

    def reader(key: str, value: Any) -> str:
        read(key, value)
        return read_text(key, value)

    return reader


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """Which scrapers a coordinator runs; by default those with seeds."""

    scrapers: tuple[str, ...] = setting(read_words, ())
    resume: bool = setting(read_flag, default=True)
    rejects: str | None = setting(read_pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersSettings:
    """How many workers there are, in all and on each machine, and what they work on."""

    count: int | None = setting(_count)
    per_machine: int | None = setting(_count)
    concurrency: int | None = setting(_count)
    batch_size: int | None = setting(_count)
    memory: int | None = setting(read_size)
    scrapers: tuple[str, ...] = setting(read_words, ())
    steps: tuple[str, ...] | None = setting(read_words)
    partitions: tuple[str, ...] | None = setting(read_words)
    heartbeat: str | None = setting(_checked(read_positive_duration))
    metrics: str | None = setting(_checked(read_host_port))


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
        tables: dict[str, Any] = {
            table.name: read_fields(type(table.default), f"{file}: {table.name}", data.get(table.name, {}))
            for table in fields(cls)
        }
        workers: WorkersSettings = tables["workers"]
        if workers.count and (workers.per_machine or 0) > workers.count:
            reason = f"must be at most workers.count, {workers.count}: that is how many all machines run"
            raise InvalidSetting(f"{file}: workers.per_machine", reason)
        return cls(**tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Workers of one kind: what they serve, how many containers there are, and processes in each."""

    scrapers: tuple[str, ...] = setting(read_words, ())  # default: all
    steps: tuple[str, ...] = setting(read_words, ())  # default: all
    replicas: int = setting(_replicas, 2)
    workers: int | None = setting(_count)
    # With `max_replicas`, KEDA decides between the two in Kubernetes.
    min_replicas: int | None = setting(_replicas)
    max_replicas: int | None = setting(_count)
    tasks_per_worker: int | None = setting(_count)


def _image(key: str, value: Any) -> str:
    text = read_text(key, value)
    if not _IMAGE.fullmatch(text):
        raise InvalidSetting(key, f"must be an image such as registry.example.com/books:1, got {text!r}")
    return text


def _secrets(key: str, value: Any) -> tuple[str, ...]:
    names = read_words(key, value)
    for name in names:
        if not _VARIABLE.fullmatch(name):
            # Shown in part: it may be the secret itself.
            raise InvalidSetting(
                key, f"must hold names of environment variables such as SHOAL_TOKENS, not {name[:4]!r}…"
            )
    return tuple(dict.fromkeys(names))


def _services(key: str, value: Any) -> dict[str, ServiceSettings]:
    if not isinstance(value, dict) or not value:
        raise InvalidSetting(key, "must be tables, each such as [deploy.services.profile]")
    for name in value:
        if not _SERVICE.fullmatch(name) or name in RESERVED:
            raise InvalidSetting(f"{key}.{name}", "must be another name: small letters, digits and -")
    return {name: _service(f"{key}.{name}", one) for name, one in value.items()}


def _service(key: str, value: Any) -> ServiceSettings:
    found = read_fields(ServiceSettings, key, value)
    if found.max_replicas is None:
        for name in ("min_replicas", "tasks_per_worker"):
            if getattr(found, name) is not None:
                raise InvalidSetting(f"{key}.{name}", "is for autoscaling: set max_replicas too")
    elif (found.min_replicas or 0) > found.max_replicas:
        raise InvalidSetting(f"{key}.min_replicas", f"must be at most max_replicas, {found.max_replicas}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploySettings:
    """What `shoal deploy` needs to know beyond the rest of the project file."""

    image: str | None = setting(_image)
    architecture: str = setting(_architecture, "amd64")
    secrets: tuple[str, ...] = setting(_secrets, ())  # names of environment variables
    services: Mapping[str, ServiceSettings] = field(default_factory=dict, metadata={"read": _services})
