"""A table in a PostgreSQL database, with asyncpg."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from importlib.resources import files
from typing import Any, TypeVar

from shoal.core.errors import ExportFailed, ExportUnavailable, InvalidSetting, ShoalError
from shoal.export.table import Kind
from shoal.export.tables.address import TableAddress
from shoal.export.tables.columns import ColumnType, NameRules, conflict_action, quote_name, quote_names
from shoal.export.tables.database import Table, TableColumn
from shoal.registry.extras import install_command

Result = TypeVar("Result")


class LoopThread:
    """Runs coroutines for blocking callers; the thread starts on first use."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._start()).result()

    def close(self) -> None:
        """Stop the thread."""
        if self._loop and self._thread:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        self._loop = self._thread = None

    def _start(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
            self._thread.start()
        return self._loop


UNAVAILABLE = "Start the server or fix the URL, then run the same command again; no row is half-written"
ACCESS_DENIED = "Check the user, password, database and permissions"
DISK_FULL = "Free disk space on the server, then run the same command again"
BUSY = "Another program holds a lock; wait for it, then run the same command again"
REJECTED = "Check the parameters of the URL and the constraints of the table, or use another table"


@contextmanager
def translate_errors(driver: Any, location: str) -> Iterator[None]:
    """Turn driver errors into ExportFailed."""
    try:
        yield
    except Exception as error:
        advice = None if isinstance(error, ShoalError) else _advice(driver, error)
        if advice is None:
            raise
        kind = ExportUnavailable if advice is UNAVAILABLE else ExportFailed
        raise kind(location, _reason(error), advice) from error


def _advice(driver: Any, error: Exception) -> str | None:
    denied = (
        driver.InvalidAuthorizationSpecificationError,
        driver.InsufficientPrivilegeError,
        driver.InvalidCatalogNameError,
        driver.InvalidSchemaNameError,
        driver.ReadOnlySQLTransactionError,
    )
    if isinstance(error, denied):
        return ACCESS_DENIED
    if isinstance(error, driver.DiskFullError):
        return DISK_FULL
    if isinstance(error, (driver.LockNotAvailableError, driver.DeadlockDetectedError)):
        return BUSY
    temporary = (OSError, driver.PostgresConnectionError, driver.OperatorInterventionError)
    if isinstance(error, (*temporary, driver.InsufficientResourcesError, driver.InternalClientError)):
        return UNAVAILABLE
    if isinstance(error, driver.InterfaceError):
        return UNAVAILABLE
    return REJECTED if isinstance(error, driver.PostgresError) else None


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


CONNECT_TIMEOUT_SECONDS, COMMAND_TIMEOUT_SECONDS, CLOSE_TIMEOUT_SECONDS = 10, 300, 5
SET_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '10s'"  # report the conflict instead of waiting forever


class PostgresLink:
    """One connection, opened on first use, and one transaction until a commit.

    Raises the driver's own errors.
    """

    def __init__(self, address: TableAddress) -> None:
        try:
            self.driver: Any = import_module("asyncpg")
        except ImportError as error:
            reason = f"needs asyncpg. Run: {install_command('postgres')}"
            raise InvalidSetting(address.location, reason) from error
        self._url = address.url
        self._loop = LoopThread("export to PostgreSQL")
        self._opened: Any = None
        self._transaction: Any = None

    def fetch(self, query: str, *args: Any) -> list[Any]:
        """Run a query and return its rows."""
        return self._loop.run(self._fetch(query, *args))

    def change(self, statement: str) -> None:
        """Run a statement, in the current transaction if there is one."""
        self._loop.run(self._change(statement))

    def insert(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement whose arguments are the columns of these rows."""
        self.begin()
        self._loop.run(self._opened.execute(statement, *map(list, zip(*rows, strict=True))))

    def begin(self) -> None:
        """Start a transaction, if there is none."""
        self._loop.run(self._begin())

    def commit(self) -> None:
        if self._transaction:
            transaction, self._transaction = self._transaction, None
            self._loop.run(transaction.commit())

    def close(self) -> None:
        """Close the connection; the server rolls back what was not committed."""
        if self._opened:
            connection, self._opened, self._transaction = self._opened, None, None
            self._loop.run(_close_connection(connection))
        self._loop.close()

    async def _connection(self) -> Any:
        if self._opened is None:
            try:
                self._opened = await self._connect()
            except (ValueError, OverflowError, self.driver.ClientConfigurationError):
                # Not the error's own text: it quotes the URL with the password.
                raise InvalidSetting(
                    "--to", "is not a PostgreSQL URL; in a password, write / as %2F and @ as %40"
                ) from None
        return self._opened

    async def _connect(self) -> Any:
        # Behind a pooler the next statement may run in another server process, without the prepared ones.
        return await self.driver.connect(
            self._url,
            timeout=CONNECT_TIMEOUT_SECONDS,
            command_timeout=COMMAND_TIMEOUT_SECONDS,
            statement_cache_size=0,
        )

    async def _fetch(self, query: str, *args: Any) -> list[Any]:
        return list(await (await self._connection()).fetch(query, *args))

    async def _change(self, statement: str) -> None:
        connection = await self._connection()
        async with connection.transaction():
            await connection.execute(SET_LOCK_TIMEOUT)
            await connection.execute(statement)

    async def _begin(self) -> None:
        if self._transaction is None:
            connection = await self._connection()
            transaction = connection.transaction()
            await transaction.start()
            self._transaction = transaction
            await connection.execute(SET_LOCK_TIMEOUT)


async def _close_connection(connection: Any) -> None:
    try:
        await connection.close(timeout=CLOSE_TIMEOUT_SECONDS)
    except Exception:
        connection.terminate()


_TYPES = {
    Kind.BOOL: "boolean",
    Kind.INT: "bigint",
    Kind.BIGINT: "bigint",
    Kind.FLOAT: "double precision",
    Kind.TIMESTAMP: "timestamptz",
    Kind.JSON: "jsonb",
}
# By the server's own name of the type.
_COLUMN_TYPES = {
    **dict.fromkeys(("int2", "int4", "int8"), ColumnType.INT),
    **dict.fromkeys(("float4", "float8"), ColumnType.FLOAT),
    **dict.fromkeys(("text", "varchar", "bpchar", "citext", "name"), ColumnType.TEXT),
    **dict.fromkeys(("json", "jsonb"), ColumnType.JSON),
    "numeric": ColumnType.DECIMAL,
    "bool": ColumnType.BOOL,
}
# The type in which a value is sent; everything else is sent as text.
_SENT_TYPES = {ColumnType.INT: "bigint", ColumnType.FLOAT: "float8", ColumnType.BOOL: "boolean"}

COLUMNS = (files(__package__) / "postgres_columns.sql").read_text(encoding="utf-8")


def type_for(kind: Kind) -> str:
    """Return the column type for a kind of values."""
    return _TYPES.get(kind, "text")


def column_type_of(type_name: str) -> ColumnType:
    """Return what a column of this type holds."""
    return _COLUMN_TYPES.get(type_name, ColumnType.CAST)


def upsert_statement(table: str, columns: Sequence[TableColumn], key: Sequence[str]) -> str:
    """Return the statement that inserts rows, given as an array per column, or updates those with their keys.

    Only the last row of each key is used, because a statement cannot update a row twice; the column types
    decide whether keys are equal. The order by key prevents deadlocks between two exports to one table.
    """
    names = [column.name for column in columns]
    arrays = [
        f"${number}::{_SENT_TYPES.get(column.column_type, 'text')}[]"
        for number, column in enumerate(columns, 1)
    ]
    values = {column.name: f"c{number}::{column.type}" for number, column in enumerate(columns, 1)}
    keys = ", ".join(values[name] for name in key)
    sent = ", ".join(f"c{number}" for number in range(1, len(columns) + 1))
    return (
        f"INSERT INTO {table} ({quote_names(names)}) SELECT DISTINCT ON ({keys}) {', '.join(values.values())}"
        f" FROM unnest({', '.join(arrays)}) WITH ORDINALITY AS sent ({sent}, position)"
        f" ORDER BY {keys}, position DESC ON CONFLICT ({quote_names(key)}) {conflict_action(names, key)}"
    )


QUEUE_SCHEMA = "shoal"
MAX_NAME_LENGTH = 63  # bytes


class PostgresTable(Table):
    """A PostgreSQL table."""

    rules = NameRules(
        max_bytes=MAX_NAME_LENGTH,
        max_columns=1_500,
        reserved=frozenset(("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")),
    )

    def __init__(self, address: TableAddress, link: PostgresLink) -> None:
        self.location, self.name = address.location, _qualified(address)
        self._link = link

    def columns(self) -> Mapping[str, TableColumn]:
        with self._translated():
            rows = self._link.fetch(COLUMNS, self.name)
        return {
            row["name"]: TableColumn(row["name"], row["type"], column_type_of(row["base"])) for row in rows
        }

    def create(self, kinds: Mapping[str, Kind], key: Sequence[str]) -> None:
        columns = ", ".join(f"{quote_name(name)} {type_for(kind)}" for name, kind in kinds.items())
        # In the transaction of the rows, so that nobody sees an empty table.
        with self._translated():
            self._link.begin()
        self._change(f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({quote_names(key)}))")

    def add(self, kinds: Mapping[str, Kind]) -> None:
        # Not IF NOT EXISTS: another client may add the same column with another type in the meantime.
        added = ", ".join(f"ADD COLUMN {quote_name(name)} {type_for(kind)}" for name, kind in kinds.items())
        self._change(f"ALTER TABLE {self.name} {added}")

    def widen(self, column: TableColumn, kind: Kind) -> None:
        self._change(self._widening(column, kind))

    def advice(self, column: TableColumn, kind: Kind) -> str:
        return f"Use another table, or change this one: {self._widening(column, kind)}"

    def upsert(
        self, columns: Sequence[TableColumn], key: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        with self._translated(), self._keyed(key):
            self._link.insert(upsert_statement(self.name, columns, key), rows)

    def commit(self) -> None:
        with self._translated():
            self._link.commit()

    def close(self) -> None:
        self._link.close()

    def _change(self, statement: str) -> None:
        with self._translated():
            self._link.change(statement)

    def _translated(self) -> AbstractContextManager[None]:
        return translate_errors(self._link.driver, self.location)

    @contextmanager
    def _keyed(self, key: Sequence[str]) -> Iterator[None]:
        try:
            yield
        except self._link.driver.InvalidColumnReferenceError as error:
            command = f"CREATE UNIQUE INDEX ON {self.name} ({quote_names(key)})"
            reason = f"has no unique index on the key. Run: {command}; or use another table"
            raise InvalidSetting(self.location, reason) from error

    def _widening(self, column: TableColumn, kind: Kind) -> str:
        name, wide = quote_name(column.name), type_for(kind)
        return f"ALTER TABLE {self.name} ALTER COLUMN {name} TYPE {wide} USING {name}::{wide}"


def _qualified(address: TableAddress) -> str:
    """Return the quoted name of a table, with its schema if one is given."""
    schema, dot, table = address.table.rpartition(".")
    parts = [schema, table] if dot else [table]
    if schema == QUEUE_SCHEMA or schema.startswith(f"{QUEUE_SCHEMA}_"):  # the schema of a namespace
        raise InvalidSetting(
            address.location, f"is in the schema {schema!r}, which is reserved for the queue"
        )
    for part in parts:
        if not 0 < len(part.encode()) <= MAX_NAME_LENGTH:
            raise InvalidSetting("table", f"must have 1 to {MAX_NAME_LENGTH} bytes, got {part!r}")
    return ".".join(map(quote_name, parts))
