"""Connections to a PostgreSQL server: pool, keepalive, retries when a connection is lost."""

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

import asyncpg

from shoal.core.errors import (
    HandshakeFailed,
    InvalidSetting,
    QueueError,
    QueueFull,
    QueueReadOnly,
    QueueRefused,
    QueueUnavailable,
    UnknownRun,
)
from shoal.core.redact import shown_address
from shoal.queue.address import check_files, take_namespace, with_namespace
from shoal.queue.outages import CancellationCheck, Outage, RetryUntil, handshake_problem
from shoal.queue.postgres.connections import GrowingTurns, NoStatement, described
from shoal.queue.postgres.sql import in_schema, schema_of

# Of a call that usually takes milliseconds. A lease lasts a minute and is extended three times in it, so an
# extension that was lost to this timeout is repeated before it is too late.
QUERY_TIMEOUT_SECONDS = 20.0
CONNECT_TIMEOUT_SECONDS = 10.0
CLOSE_TIMEOUT_SECONDS = 5.0
READ_ONLY_TIMEOUT_SECONDS = 10.0  # a standby that is being promoted takes writes sooner

KEEPALIVE_IDLE = 10  # seconds of silence before the first probe
KEEPALIVE_INTERVAL_SECONDS = 5  # between probes
KEEPALIVE_PROBES = 2  # failed probes before the connection is closed
USER_TIMEOUT_SECONDS = (
    KEEPALIVE_IDLE + KEEPALIVE_PROBES * KEEPALIVE_INTERVAL_SECONDS
)  # seconds without an acknowledgement

# asyncpg sends the encoding in quotes, and the server reports it without: PgBouncer takes them for different
# ones, and sends a SET before every transaction.
# A timedelta is sent as days and the rest, and in a zone with summer time some days have 23 or 25 hours.
POOLED_SESSION = {"client_encoding": "UTF8", "TimeZone": "UTC"}

# Without a pooler: also what keeps other clients from waiting for the locks of a client that has vanished.
SESSION = {
    "TimeZone": "UTC",
    "tcp_keepalives_idle": f"{KEEPALIVE_IDLE}s",
    "tcp_keepalives_interval": f"{KEEPALIVE_INTERVAL_SECONDS}s",
    "tcp_keepalives_count": f"{KEEPALIVE_PROBES}",
    "tcp_user_timeout": f"{USER_TIMEOUT_SECONDS}s",
    "idle_in_transaction_session_timeout": "60s",  # for a client that is reachable but stopped
}

_OPTIONS = (
    ("SOL_SOCKET", "SO_KEEPALIVE", 1),
    ("IPPROTO_TCP", "TCP_KEEPIDLE", KEEPALIVE_IDLE),
    ("IPPROTO_TCP", "TCP_KEEPINTVL", KEEPALIVE_INTERVAL_SECONDS),
    ("IPPROTO_TCP", "TCP_KEEPCNT", KEEPALIVE_PROBES),
    ("IPPROTO_TCP", "TCP_USER_TIMEOUT", USER_TIMEOUT_SECONDS * 1_000),
)


class KeepaliveConnection(asyncpg.Connection):  # type: ignore[misc]
    """A connection that closes itself when its server is no longer reachable."""

    def __init__(self, protocol: Any, transport: Any, *more: Any) -> None:
        super().__init__(protocol, transport, *more)
        enable_keepalive(transport.get_extra_info("socket"))

    async def _introspect_types(self, typeoids: Collection[int], *more: Any) -> Any:
        # Of the driver's own: five round trips and 4 ms of the server on each connection, for every function
        # that takes arrays. A driver without this method asks as before.
        rows = described(typeoids)
        return (rows, NoStatement()) if rows is not None else await super()._introspect_types(typeoids, *more)


def enable_keepalive(sock: Any) -> None:
    """Enable keepalive on a TCP socket; options that the system lacks are skipped."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    for level, name, value in _OPTIONS:
        if hasattr(socket, name):
            sock.setsockopt(getattr(socket, level), getattr(socket, name), value)


Result = TypeVar("Result")
Connection = Any  # asyncpg has no types

MAX_CONNECTIONS = 6
FILE_OPTIONS = ("sslrootcert", "sslcert", "sslkey", "sslcrl")

PROCESSES = 4  # among which the connections of a role are shared out, if they are limited
# The limit of a superuser is not enforced.
_WHO = (
    "SELECT pg_backend_pid(),"
    " (SELECT rolconnlimit FROM pg_catalog.pg_roles"
    " WHERE rolname = session_user AND NOT rolsuper AND rolconnlimit >= 0)"
)
ENCODINGS = ("UTF8", "SQL_ASCII")  # the second one stores what it gets
_ROLE_LIMIT = re.compile(r'too many connections for (role|database) "(.+)"')
_UNKNOWN_RUN = "SH001"
_TEMPORARY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # raised if the server closes the connection between two messages
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.QueryCanceledError,  # by the role's statement_timeout, or manually
    asyncpg.LockNotAvailableError,  # after the role's lock_timeout
)
_REFUSALS = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.InvalidCatalogNameError,
)


class PostgresServer:
    """A small connection pool; a call whose connection is lost is repeated."""

    def __init__(self, url: str, *, patience: timedelta) -> None:
        self._url, namespace = _split(url)
        check_files(self._url, FILE_OPTIONS)
        self.address = with_namespace(shown_address(url).partition("?")[0], namespace)
        self.schema = schema_of(namespace)
        self._patience, self._outage = patience, Outage(self.address)
        self._pool: Any = None
        self._turns = GrowingTurns(MAX_CONNECTIONS)  # of calls

    async def open(self) -> None:
        """Connect to the server; raises QueueUnavailable or QueueRefused."""
        await self._retry(lambda is_retry: self._open())

    async def close(self) -> None:
        """Close every connection; running calls may take up to CLOSE_TIMEOUT_SECONDS."""
        if self._pool is None:
            return
        pool, self._pool = self._pool, None
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                await pool.close()
        except TimeoutError:
            pool.terminate()

    async def fetch(self, query: str, *args: Any, timeout: float | None = QUERY_TIMEOUT_SECONDS) -> list[Any]:
        """Run a query that is safe to repeat."""
        return await self._retry(lambda is_retry: self._fetch(query, *args, timeout=timeout))

    async def value(self, query: str, *args: Any) -> Any:
        """Run a query that is safe to repeat, and return its single value."""
        rows = await self.fetch(query, *args)
        return rows[0][0]

    async def once(self, query: str, *args: Any, timeout: float | None = QUERY_TIMEOUT_SECONDS) -> list[Any]:
        """Run a query that must take effect once; its first arguments are a call id and if it is a retry."""
        call = uuid4()
        return await self._retry(lambda is_retry: self._fetch(query, call, is_retry, *args, timeout=timeout))

    async def in_transaction(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        """Run work that is safe to repeat in one transaction."""
        await self._retry(lambda is_retry: self._in_transaction(work))

    @property
    def _connections(self) -> Any:
        if self._pool is None:
            raise QueueError("This queue is closed. Open it again with: open_queue(url)")
        return self._pool

    async def _open(self) -> None:
        try:
            await self._connect()
        except ssl.SSLError as error:
            if problem := handshake_problem(error):
                raise HandshakeFailed(self.address, problem) from error
            raise
        except (ValueError, asyncpg.ClientConfigurationError) as error:
            if "root certificate file" in str(error):
                raise InvalidSetting(
                    "queue", "verifies its server; name the authority: &sslrootcert=FILE"
                ) from None
            if "sslmode" in str(error) and "must be one of" in str(error):
                raise InvalidSetting("queue", "has an unknown sslmode; write &sslmode=verify-full") from None
            # Not the error's own text: it quotes the URL, and with it the password.
            raise InvalidSetting(
                "queue", "is not a PostgreSQL URL; in a password, write / as %2F and @ as %40"
            ) from None

    async def _connect(self) -> None:
        # Without a pooler, which is the usual case, its first connection is used for what follows.
        pool = await self._make_pool(SESSION, statements=100)
        try:
            async with pool.acquire() as connection:
                self._check_encoding(connection)
                has_pooler, limit = await _read_session(connection)
        except asyncpg.ProtocolViolationError:  # PgBouncer refuses settings of the session
            has_pooler, limit = await self._uses_pooler(), None
        except BaseException:
            pool.terminate()
            raise
        if has_pooler:
            pool.terminate()
            # It may run each transaction in another server process, so no session state may remain.
            pool = await self._make_pool(POOLED_SESSION, statements=0)
        elif limit is not None:
            # Idle connections stay open: the first process would take all of them, and the next wait in vain.
            self._turns = GrowingTurns(min(MAX_CONNECTIONS, max(1, limit // PROCESSES)))
        self._pool = pool

    def _check_encoding(self, connection: Connection) -> None:
        encoding = connection.get_settings().server_encoding
        if encoding not in ENCODINGS:
            name = self._url.partition("?")[0].rpartition("/")[2]
            raise QueueError(
                f"The database at {self.address} has the encoding {encoding}, and URLs, items and pages need "
                "UTF8. Create another: "
                f"createdb --encoding UTF8 --locale C.UTF-8 --template template0 {name}_utf8"
            )

    async def _make_pool(self, session: dict[str, str], *, statements: int) -> Any:
        return await asyncpg.create_pool(
            self._url,
            min_size=0,
            max_size=MAX_CONNECTIONS,
            statement_cache_size=statements,
            reset=_reset_nothing,
            timeout=CONNECT_TIMEOUT_SECONDS,
            connection_class=KeepaliveConnection,
            server_settings=session,
        )

    async def _uses_pooler(self) -> bool:
        connection = await asyncpg.connect(
            self._url,
            statement_cache_size=0,
            timeout=CONNECT_TIMEOUT_SECONDS,
            server_settings=POOLED_SESSION,
        )
        try:
            self._check_encoding(connection)
            return (await _read_session(connection))[0]
        finally:
            await connection.close(timeout=CLOSE_TIMEOUT_SECONDS)

    async def _fetch(self, query: str, *args: Any, timeout: float | None) -> list[Any]:
        async with self._turns, self._connections.acquire(timeout=timeout) as connection:
            try:
                return list(await connection.fetch(in_schema(query, self.schema), *args, timeout=timeout))
            except TimeoutError:
                # Closed, not cancelled: a frozen server gets no cancellation, and a slow one may be
                # about to finish. The next attempt waits for that, and gets the result of this one.
                connection.terminate()
                raise

    async def _in_transaction(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        async with self._turns, self._connections.acquire() as connection, connection.transaction():
            await work(connection)

    async def _retry(self, attempt: Callable[[bool], Awaitable[Result]]) -> Result:
        """Retry until the attempt succeeds or the retry timeout is over."""
        retries, cancellation = RetryUntil(self._outage, self._patience), CancellationCheck()
        while True:
            try:
                result = await attempt(retries.tries > 0)
                self._outage.end()
                return result
            except _TEMPORARY as error:
                cancellation.check()
                await retries.again(_reason(error), error)
            except asyncpg.ReadOnlySQLTransactionError as error:
                cancellation.check()
                await self._leave_standby(retries, error)
            except asyncpg.PostgresError as error:
                raise self._translate(error) from error

    async def _leave_standby(self, retries: RetryUntil, error: asyncpg.PostgresError) -> None:
        """Connect again after a refused write: the address may lead to the new primary by now."""
        if self._pool is not None:
            await self._pool.expire_connections()
        if retries.elapsed > READ_ONLY_TIMEOUT_SECONDS:
            raise self._translate(error) from error
        try:
            await retries.again(_reason(error), error)
        except QueueUnavailable:
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


async def _read_session(connection: Connection) -> tuple[bool, int | None]:
    """Return whether there is a pooler, and how many connections the role may have; None for any number.

    A pooler reports a process id of its own, and the server's differs.
    """
    # Without a name: a pooler may show a named statement to other clients.
    statement = await connection.prepare(_WHO, name="", timeout=CONNECT_TIMEOUT_SECONDS)
    pid, limit = await statement.fetchrow(timeout=CONNECT_TIMEOUT_SECONDS)
    return pid != connection.get_server_pid(), limit


async def _reset_nothing(connection: Connection) -> None:
    """Reset nothing: no call leaves state in its session."""


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "it does not respond"
    if limited := _ROLE_LIMIT.search(str(error)):
        kind, name = limited.groups()
        limit = f'ALTER {kind.upper()} "{name}" CONNECTION LIMIT -1'
        return f"{kind} {name} has no connection left; run: {limit}, or use PgBouncer"
    if isinstance(error, asyncpg.TooManyConnectionsError):
        return "it has no connection left; raise its max_connections, or use PgBouncer"
    if isinstance(error, asyncpg.QueryCanceledError):
        return f"{error}; raise this user's statement_timeout"
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _split(url: str) -> tuple[str, str]:
    """Return the URL for the driver, and the namespace in it."""
    # After the last "?": a password may contain one.
    place, mark, query = url.rpartition("?")
    if not mark:
        return url, ""
    query, namespace = take_namespace(query)
    return f"{place}{mark if query else ''}{query}", namespace
