"""The way to a PostgreSQL database, shared by the tables that are written in it."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.export.address import TableAddress
from shoal.export.loopthread import LoopThread

CONNECT, COMMAND, FAREWELL = 10, 300, 5  # seconds
LOCKS = "SET LOCAL lock_timeout = '10s'"  # who is in the way is named, not waited for without end


class PostgresLink:
    """One connection, opened when it is needed, and one transaction until a commit.

    Raises the driver's own errors.
    """

    def __init__(self, address: TableAddress) -> None:
        try:
            self.driver: Any = import_module("asyncpg")
        except ImportError as error:
            reason = "needs asyncpg to be written. Run: pip install 'shoal[postgres]'"
            raise InvalidSetting(address.place, reason) from error
        self._url = address.url
        self._loop = LoopThread("export to PostgreSQL")
        self._open: Any = None
        self._transaction: Any = None
        self._waiting: dict[str, str] = {}  # the temporary tables of this transaction, by their columns

    def fetch(self, query: str, *args: Any) -> list[Any]:
        """Run a query and return its rows."""
        return self._loop.run(self._fetch(query, *args))

    def change(self, statement: str) -> None:
        """Run a statement by itself, or in the transaction if there is one."""
        self._loop.run(self._change(statement))

    def load(self, rows: Sequence[tuple[Any, ...]], columns: str, statement: Callable[[str], str]) -> None:
        """Copy rows into a temporary table, and run the statement that takes them from there."""
        self.begin()
        self._loop.run(self._load(rows, columns, statement))

    def begin(self) -> None:
        """Begin a transaction, if there is none."""
        self._loop.run(self._begin())

    def commit(self) -> None:
        """Make what was done last."""
        if self._transaction:
            transaction, self._transaction = self._transaction, None
            self._waiting.clear()
            self._loop.run(transaction.commit())

    def close(self) -> None:
        """Let the server go; it undoes what was not committed."""
        self._waiting.clear()
        if self._open:
            connection, self._open, self._transaction = self._open, None, None
            self._loop.run(_farewell(connection))
        self._loop.close()

    async def _connection(self) -> Any:
        if self._open is None:
            try:
                self._open = await self._connect()
            except (ValueError, OverflowError, self.driver.ClientConfigurationError):
                # Not the error's own text: it quotes the address, and with it the password.
                raise InvalidSetting(
                    "--to", "is no address of a PostgreSQL; in a password, write / as %2F and @ as %40"
                ) from None
        return self._open

    async def _connect(self) -> Any:
        # Behind a pooler the next statement may meet another server process, which has prepared nothing.
        return await self.driver.connect(
            self._url, timeout=CONNECT, command_timeout=COMMAND, statement_cache_size=0
        )

    async def _fetch(self, query: str, *args: Any) -> list[Any]:
        return list(await (await self._connection()).fetch(query, *args))

    async def _change(self, statement: str) -> None:
        connection = await self._connection()
        async with connection.transaction():
            await connection.execute(LOCKS)
            await connection.execute(statement)

    async def _load(
        self, rows: Sequence[tuple[Any, ...]], columns: str, statement: Callable[[str], str]
    ) -> None:
        name = await self._temporary(columns)
        await self._open.copy_records_to_table(name, schema_name="pg_temp", records=rows)
        await self._open.execute(statement(f"pg_temp.{name}"))
        await self._open.execute(f"TRUNCATE pg_temp.{name}")

    async def _temporary(self, columns: str) -> str:
        # Made anew in each transaction: behind a pooler, the next may meet another server process.
        if columns not in self._waiting:
            name = f"shoal_load_{len(self._waiting)}"
            await self._open.execute(f"CREATE TEMPORARY TABLE {name} ({columns}) ON COMMIT DROP")
            self._waiting[columns] = name
        return self._waiting[columns]

    async def _begin(self) -> None:
        if self._transaction is None:
            connection = await self._connection()
            transaction = connection.transaction()
            await transaction.start()
            self._transaction = transaction
            await connection.execute(LOCKS)


async def _farewell(connection: Any) -> None:
    try:
        await connection.close(timeout=FAREWELL)
    except Exception:
        connection.terminate()
