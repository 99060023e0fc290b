"""The connections to one PostgreSQL, and what to do when one is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

import asyncpg

from shoal.core.errors import (
    InvalidSetting,
    QueueError,
    QueueFull,
    QueueReadOnly,
    QueueRefused,
    UnknownRun,
)
from shoal.queue.namespace import take_namespace, with_namespace
from shoal.queue.patience import Obedience, Outage, Patience
from shoal.queue.postgres.alive import (
    ANSWER_WITHIN,
    CLOSE_WITHIN,
    CONNECT_WITHIN,
    SESSION,
    AliveConnection,
)
from shoal.queue.postgres.sql import in_schema, schema_of

Answer = TypeVar("Answer")
Connection = Any  # asyncpg has no types

MOST_CONNECTIONS = 6

_UNKNOWN_RUN = "SH001"
_PASSING = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what a connection says whose server has said goodbye between two messages
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.QueryCanceledError,  # by the role's statement_timeout, or by hand
    asyncpg.LockNotAvailableError,  # within the role's lock_timeout
)
_REFUSALS = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.InvalidCatalogNameError,
)


class Server:
    """A few connections that are opened when needed; a call whose connection is lost is repeated."""

    def __init__(self, url: str, *, patience: timedelta) -> None:
        self._url, namespace = _split(url)
        self.address = with_namespace(_without_password(url), namespace)
        self.schema = schema_of(namespace)
        self._patience, self._outage = patience, Outage(self.address)
        self._pool: Any = None

    async def open(self) -> None:
        """Make sure that the server answers; raises QueueUnavailable or QueueRefused."""
        await self._persist(lambda again: self._open())

    async def close(self) -> None:
        """Close every connection; calls under way are given a moment."""
        if self._pool is None:
            return
        pool, self._pool = self._pool, None
        try:
            async with asyncio.timeout(CLOSE_WITHIN):
                await pool.close()
        except TimeoutError:
            pool.terminate()

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        """Run a query that is safe to repeat."""
        return await self._persist(lambda again: self._fetch(query, *args))

    async def at_length(self, query: str, *args: Any) -> list[Any]:
        """Run a query that is safe to repeat, and that may take as long as it takes."""
        return await self._persist(lambda again: self._fetch(query, *args, within=None))

    async def value(self, query: str, *args: Any) -> Any:
        """Run a query that is safe to repeat, and return its only value."""
        rows = await self.fetch(query, *args)
        return rows[0][0]

    async def once(self, query: str, *args: Any) -> list[Any]:
        """Run a query that must take effect once; it is handed its call's id and whether it is repeated."""
        call = uuid4()
        return await self._persist(lambda again: self._fetch(query, call, again, *args))

    async def once_at_length(self, query: str, *args: Any) -> list[Any]:
        """Run a query as `once` does, one that may take as long as it takes."""
        call = uuid4()
        return await self._persist(lambda again: self._fetch(query, call, again, *args, within=None))

    async def in_transaction(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        """Do some work that is safe to repeat, in one transaction."""
        await self._persist(lambda again: self._in_transaction(work))

    @property
    def _connections(self) -> Any:
        if self._pool is None:
            raise QueueError("This queue is closed. Open it again with: open_queue(url)")
        return self._pool

    async def _open(self) -> None:
        try:
            await self._connect()
        except (ValueError, asyncpg.ClientConfigurationError):
            # Not the error's own text: it quotes the address, and with it the password.
            raise InvalidSetting(
                "queue", "is no address of a PostgreSQL; in a password, write / as %2F and @ as %40"
            ) from None

    async def _connect(self) -> None:
        pooled = await self._behind_a_pooler()
        # A pooler hands every transaction to another server process, so nothing may be left behind in one.
        pool = await asyncpg.create_pool(
            self._url,
            min_size=0,
            max_size=MOST_CONNECTIONS,
            statement_cache_size=0 if pooled else 100,
            reset=_keep,
            timeout=CONNECT_WITHIN,
            connection_class=AliveConnection,
            server_settings={} if pooled else SESSION,
        )
        self._pool = pool

    async def _behind_a_pooler(self) -> bool:
        connection = await asyncpg.connect(
            self._url, statement_cache_size=0, timeout=CONNECT_WITHIN, command_timeout=CONNECT_WITHIN
        )
        try:
            # A pooler makes up its own process number; the server's own is another.
            return bool(await connection.fetchval("SELECT pg_backend_pid()") != connection.get_server_pid())
        finally:
            await connection.close(timeout=CLOSE_WITHIN)

    async def _fetch(self, query: str, *args: Any, within: float | None = ANSWER_WITHIN) -> list[Any]:
        async with self._connections.acquire(timeout=within) as connection:
            try:
                return list(await connection.fetch(in_schema(query, self.schema), *args, timeout=within))
            except TimeoutError:
                # Left, not called off: who is frozen hears nothing, and who is only slow may be about to end.
                # The next try waits for that, and hears what this one has done.
                connection.terminate()
                raise

    async def _in_transaction(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        async with self._connections.acquire() as connection, connection.transaction():
            await work(connection)

    async def _persist(self, attempt: Callable[[bool], Awaitable[Answer]]) -> Answer:
        """Try until there is an answer or patience is over."""
        patience, obedience = Patience(self._outage, self._patience), Obedience()
        while True:
            try:
                answer = await attempt(patience.tries > 0)
                self._outage.end()
                return answer
            except _PASSING as error:
                obedience.check()
                await patience.again(_reason(error), error)
            except asyncpg.PostgresError as error:
                if isinstance(error, asyncpg.ReadOnlySQLTransactionError) and self._pool is not None:
                    # After a failover these connections may lead to what was the primary. The next call makes
                    # new ones, and finds the server that is the primary now.
                    await self._pool.expire_connections()
                raise self._translate(error) from error

    def _translate(self, error: asyncpg.PostgresError) -> QueueError:
        reason = _reason(error)
        if error.sqlstate == _UNKNOWN_RUN:
            return UnknownRun(reason)
        if isinstance(error, _REFUSALS):
            return QueueRefused(self.address, reason)
        if isinstance(error, asyncpg.DiskFullError):
            return QueueFull(self.address, reason)
        if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
            return QueueReadOnly(self.address, reason)
        return QueueError(f"The queue at {self.address} failed: {reason}")


async def _keep(connection: Connection) -> None:
    """Reset nothing: no call leaves anything behind in its session."""


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "it does not answer"
    if isinstance(error, asyncpg.TooManyConnectionsError):
        return "it has no connection left; raise its max_connections, or put PgBouncer in between"
    if isinstance(error, asyncpg.QueryCanceledError):
        return f"{error}; raise this user's statement_timeout"
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _split(url: str) -> tuple[str, str]:
    """Return an address as the driver takes it, and the namespace in it."""
    # Behind the last "?" of all: a password may hold one.
    place, mark, query = url.rpartition("?")
    if not mark:
        return url, ""
    query, namespace = take_namespace(query)
    return f"{place}{mark if query else ''}{query}", namespace


def _without_password(url: str) -> str:
    """Return an address that may be shown: its user, host and path, nothing else."""
    scheme, _, rest = url.partition("://")
    # By the last @ of all: someone may have forgotten to escape a slash in the password.
    user, at, place = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    return f"{scheme}://{name}{colon and ':…'}{at}{place.partition('?')[0]}"
