"""Opens the queue at an address."""

from collections.abc import Callable, Generator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from shoal.core.errors import InvalidSetting, MissingDriver, UnknownQueue
from shoal.queue.address import one_address, take_namespace
from shoal.queue.contract import OpenQueue, Queue
from shoal.queue.retry import RETRY_TIMEOUT
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


def is_there(url: str) -> bool:
    """Return whether a queue exists at an address; one on a server is assumed to."""
    file = file_of(url)
    return file is None or file.exists()


def file_of(url: str) -> Path | None:
    """Return the file of a SQLite queue, None for a queue on a server."""
    return Path(_sqlite_file(one_address(url))[0]) if url.lower().startswith("sqlite:") else None


def load_backend(url: str) -> OpenQueue:
    """Import the backend of an address; raises UnknownQueue, MissingDriver or PluginFailed."""
    scheme = one_address(url).partition(":")[0].lower()
    opener = QUEUES.find(scheme)
    if opener is None:
        raise UnknownQueue(scheme, sorted(QUEUES.names()))
    return opener


def _load(backend: "_Backend") -> OpenQueue:
    try:
        return backend.load()
    except ModuleNotFoundError as error:
        if error.name not in backend.drivers:
            raise
        raise MissingDriver(backend.name, backend.extra, install_command(backend.extra)) from error


def _sqlite() -> OpenQueue:
    from shoal.queue.sqlite.queue import SqliteQueue

    async def open_file(url: str, patience: timedelta) -> Queue:
        path, synchronous = _sqlite_file(url)
        return await SqliteQueue.open(path, synchronous=synchronous, patience=patience)

    return open_file


def _sqlite_file(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or not path:
        raise InvalidSetting("queue", f"names no file: {url!r}. Write sqlite:///shoal.db")
    query, namespace = take_namespace(parts.query)
    options = dict(parse_qsl(query))
    synchronous = options.pop("synchronous", "normal")
    if options or synchronous not in ("normal", "full"):
        raise InvalidSetting("queue", f"accepts only ?synchronous=full and ?namespace=NAME: {url!r}")
    return _file_in(namespace, path), synchronous


def _file_in(namespace: str, path: str) -> str:
    """Return the file of a namespace: `books.news.db` beside `books.db`."""
    if not namespace:
        return path
    file = Path(path)
    return str(file.with_name(f"{file.stem}.{namespace}{file.suffix}"))


def _postgres() -> OpenQueue:
    from shoal.queue.postgres.queue import PostgresQueue

    return lambda url, patience: PostgresQueue.open(url, patience=patience)


def _redis() -> OpenQueue:
    from shoal.queue.redis.queue import RedisQueue

    return lambda url, patience: RedisQueue.open(url, patience=patience)


def _rabbitmq() -> OpenQueue:
    from shoal.queue.rabbitmq.queue import RabbitQueue

    return lambda url, patience: RabbitQueue.open(url, patience=patience)


class _Backend(NamedTuple):
    load: Callable[[], OpenQueue]
    name: str
    extra: str
    drivers: frozenset[str]


_POSTGRES = _Backend(_postgres, "postgresql", "postgres", frozenset({"asyncpg"}))
_REDIS = _Backend(_redis, "redis", "redis", frozenset({"redis", "hiredis"}))
_RABBITMQ = _Backend(_rabbitmq, "rabbitmq", "rabbitmq", frozenset({"aiormq", "pamqp", "redis", "hiredis"}))
BACKENDS: dict[str, _Backend] = {
    "sqlite": _Backend(_sqlite, "sqlite", "", frozenset()),
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


QUEUES = Registry(
    "shoal.queues", "queue", {name: partial(_load, one) for name, one in BACKENDS.items()}, _read_opener
)
