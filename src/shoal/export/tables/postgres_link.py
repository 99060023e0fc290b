"""The connection to a PostgreSQL database, shared by the tables written to it."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.export.tables.address import TableAddress
from shoal.export.tables.loopthread import LoopThread
from shoal.registry.extras import install_command

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
        self._staging: dict[str, str] = {}  # temporary tables of this transaction, by their columns

    def fetch(self, query: str, *args: Any) -> list[Any]:
        """Run a query and return its rows."""
        return self._loop.run(self._fetch(query, *args))

    def change(self, statement: str) -> None:
        """Run a statement, in the current transaction if there is one."""
        self._loop.run(self._change(statement))

    def load(self, rows: Sequence[tuple[Any, ...]], columns: str, statement: Callable[[str], str]) -> None:
        """Copy rows into a temporary table, then run the statement that reads them from there."""
        self.begin()
        self._loop.run(self._load(rows, columns, statement))

    def begin(self) -> None:
        """Start a transaction, if there is none."""
        self._loop.run(self._begin())

    def commit(self) -> None:
        if self._transaction:
            transaction, self._transaction = self._transaction, None
            self._staging.clear()
            self._loop.run(transaction.commit())

    def close(self) -> None:
        """Close the connection; the server rolls back what was not committed."""
        self._staging.clear()
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

    async def _load(
        self, rows: Sequence[tuple[Any, ...]], columns: str, statement: Callable[[str], str]
    ) -> None:
        name = await self._temporary(columns)
        await self._opened.copy_records_to_table(name, schema_name="pg_temp", records=rows)
        await self._opened.execute(statement(f"pg_temp.{name}"))
        await self._opened.execute(f"TRUNCATE pg_temp.{name}")

    async def _temporary(self, columns: str) -> str:
        # Created in each transaction: behind a pooler, the next one may run in another server process.
        if columns not in self._staging:
            name = f"shoal_load_{len(self._staging)}"
            await self._opened.execute(f"CREATE TEMPORARY TABLE {name} ({columns}) ON COMMIT DROP")
            self._staging[columns] = name
        return self._staging[columns]

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
