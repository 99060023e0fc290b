"""Opens the queue at an address."""

from collections.abc import Generator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.errors import InvalidSetting, MissingDriver, UnknownQueue
from shoal.queue.address import one_address, sqlite_file
from shoal.queue.contract import OpenQueue, Queue
from shoal.queue.outages import RETRY_TIMEOUT
from shoal.queue.schema import SchemaVersions
from shoal.registry.extras import install_command
from shoal.registry.registry import Registry
from shoal.registry.signatures import check_call, is_async


class open_queue:
    """Opens the queue at an address: `sqlite:///books.db`, `postgresql://user@host/database`, `redis://host`,
    `amqp://user@host?state=redis://host`. With `?namespace=NAME`, each name is a queue of its own.

    Use it as `async with open_queue(url) as queue`, or `queue = await open_queue(url)` and close it later.
    """

    def __init__(self, url: str, *, patience: timedelta = RETRY_TIMEOUT) -> None:
        self._url, self._patience = one_address(url), patience
        self._queue: Queue | None = None

    def __await__(self) -> Generator[Any, None, Queue]:
        return self._open().__await__()

    async def __aenter__(self) -> Queue:
        self._queue = await self._open()
        return self._queue

    async def __aexit__(self, *exc: object) -> None:
        if self._queue:
            await self._queue.close()

    async def _open(self) -> Queue:
        opened: object = await load_backend(self._url)(self._url, self._patience)
        if not isinstance(opened, Queue):
            scheme, kind = self._url.partition(":")[0], type(opened).__name__
            raise InvalidSetting("queue", f"{scheme}:// is of a plugin that returned a {kind}, no Queue")
        return opened


async def read_schema(url: str, *, patience: timedelta = RETRY_TIMEOUT) -> SchemaVersions:
    """Read which schema the queue at an address has and which one this Shoal has, and migrate nothing."""
    url = one_address(url)
    backend = BACKENDS.get(url.partition(":")[0].lower())
    if backend is None:
        raise InvalidSetting("queue", "it is a plugin's, whose schema cannot be read. Leave out --check")
    found: SchemaVersions = await backend.load_module().read_schema(url, patience)
    return found


def is_there(url: str) -> bool:
    """Return whether a queue exists at an address; one on a server is assumed to."""
    file = file_of(url)
    return file is None or file.exists()


def file_of(url: str) -> Path | None:
    """Return the file of a SQLite queue, None for a queue on a server."""
    return Path(sqlite_file(one_address(url))[0]) if url.lower().startswith("sqlite:") else None


def load_backend(url: str) -> OpenQueue:
    """Import the backend of an address; raises UnknownQueue, MissingDriver or PluginFailed."""
    scheme = one_address(url).partition(":")[0].lower()
    opener = QUEUES.find(scheme)
    if opener is None:
        raise UnknownQueue(scheme, sorted(QUEUES.names()))
    return opener


class _Backend(NamedTuple):
    """A backend, imported on use: its driver is an extra."""

    name: str
    module: str
    extra: str
    drivers: frozenset[str]

    def load(self) -> OpenQueue:
        opener: OpenQueue = self.load_module().open_address
        return opener

    def load_module(self) -> Any:
        try:
            return import_module(f"shoal.queue.{self.module}.queue")
        except ModuleNotFoundError as error:
            if error.name not in self.drivers:
                raise
            raise MissingDriver(self.name, self.extra, install_command(self.extra)) from error


_POSTGRES = _Backend("postgresql", "postgres", "postgres", frozenset({"asyncpg"}))
_REDIS = _Backend("redis", "redis", "redis", frozenset({"redis", "hiredis"}))
_RABBITMQ = _Backend("rabbitmq", "rabbitmq", "rabbitmq", frozenset({"aiormq", "pamqp", "redis", "hiredis"}))
BACKENDS: dict[str, _Backend] = {
    "sqlite": _Backend("sqlite", "sqlite", "", frozenset()),
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
    "redis": _REDIS,
    "rediss": _REDIS,
    "amqp": _RABBITMQ,
    "amqps": _RABBITMQ,
}


def _read_opener(value: object) -> OpenQueue:
    wanted = "it must be an async function that takes an address and a timeout, and returns a Queue"
    check_call(value, 2, wanted)
    if not is_async(value):
        raise TypeError(f"{wanted}, and is not async")
    opener: OpenQueue = value  # type: ignore[assignment]
    return opener


QUEUES = Registry("shoal.queues", "queue", {name: one.load for name, one in BACKENDS.items()}, _read_opener)
