"""From a queue's address to the queue."""

from collections.abc import Awaitable, Callable, Generator
from datetime import timedelta
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from shoal.core.errors import InvalidSetting, MissingDriver, UnknownQueue
from shoal.core.model import SECOND
from shoal.queue.contract import Queue

PATIENCE = 30 * SECOND


class open_queue:
    """Opens the queue at an address: `sqlite:///books.db`, `postgresql://user@host/database`, `redis://host`,
    `amqp://user@host?state=redis://host`.

    Use it as `async with open_queue(url) as queue`, or `queue = await open_queue(url)` and close it later.
    """

    def __init__(self, url: str, *, patience: timedelta = PATIENCE) -> None:
        self._url, self._patience = url, patience
        self._queue: Queue | None = None

    def __await__(self) -> Generator[Any, None, Queue]:
        return self._open().__await__()

    async def __aenter__(self) -> Queue:
        self._queue = await self._open()
        return self._queue

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._queue:
            await self._queue.close()

    async def _open(self) -> Queue:
        scheme = self._url.partition(":")[0].lower()
        if scheme not in BACKENDS:
            raise UnknownQueue(scheme, sorted(BACKENDS))
        return await BACKENDS[scheme](self._url, self._patience)


async def _sqlite(url: str, patience: timedelta) -> Queue:
    from shoal.queue.sqlite.queue import SqliteQueue

    parts = urlsplit(url)
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or not path:
        raise InvalidSetting("queue", f"names no file: {url!r}. Write sqlite:///shoal.db")
    options = dict(parse_qsl(parts.query))
    synchronous = options.pop("synchronous", "normal")
    if options or synchronous not in ("normal", "full"):
        raise InvalidSetting("queue", f"may end in ?synchronous=full and nothing else: {url!r}")
    return await SqliteQueue.open(path, synchronous=synchronous, patience=patience)


async def _postgres(url: str, patience: timedelta) -> Queue:
    try:
        from shoal.queue.postgres.queue import PostgresQueue
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise MissingDriver("postgresql", "postgres") from error
    return await PostgresQueue.open(url, patience=patience)


async def _redis(url: str, patience: timedelta) -> Queue:
    try:
        from shoal.queue.redis.queue import RedisQueue
    except ModuleNotFoundError as error:
        if error.name not in ("redis", "hiredis"):
            raise
        raise MissingDriver("redis", "redis") from error
    return await RedisQueue.open(url, patience=patience)


async def _rabbitmq(url: str, patience: timedelta) -> Queue:
    try:
        from shoal.queue.rabbitmq.queue import RabbitQueue
    except ModuleNotFoundError as error:
        if error.name not in ("aiormq", "pamqp", "redis", "hiredis"):
            raise
        raise MissingDriver("rabbitmq", "rabbitmq") from error
    return await RabbitQueue.open(url, patience=patience)


BACKENDS: dict[str, Callable[[str, timedelta], Awaitable[Queue]]] = {
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "postgres": _postgres,
    "redis": _redis,
    "rediss": _redis,
    "amqp": _rabbitmq,
    "amqps": _rabbitmq,
}
