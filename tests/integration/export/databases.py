"""Databases for exports, with direct access to their tables."""

from abc import ABC, abstractmethod

import apsw
import asyncpg

from shoal.export.follow import export
from shoal.export.open import open_writer
from tests.unit.export.factories import items, source


class Database(ABC):
    """A database of one test."""

    def __init__(self, url):
        self.url = url

    def to(self, table="books"):
        """Return the address of a table."""
        return f"{self.url}?table={table}"

    async def put(self, *data, table="books", **options):
        """Export items with these data."""
        return await export(source(items(*data)), open_writer(self.to(table), **options))

    async def rows(self, table="books", order="1"):
        """Return the rows of a table as mappings."""
        return await self.query(f'SELECT * FROM "{table}" ORDER BY {order}')

    async def has(self, table="books"):
        return bool(await self.columns(table))

    @abstractmethod
    async def query(self, statement):
        """Run a statement and return its rows as mappings."""

    @abstractmethod
    async def columns(self, table="books"):
        """Return the types of a table's columns by their names."""


class Sqlite(Database):
    name = "sqlite"

    def __init__(self, path):
        super().__init__(f"sqlite:///{path}")
        self.path = path

    async def query(self, statement):
        with apsw.Connection(str(self.path)) as connection:
            connection.set_busy_timeout(10_000)  # a commit of an export locks the file briefly
            cursor = connection.execute(statement)
            return [dict(zip(_names(cursor), row, strict=True)) for row in cursor]

    async def columns(self, table="books"):
        rows = await self.query(f"SELECT name, type FROM pragma_table_info('{table}')")
        return {row["name"]: row["type"] for row in rows}


class Postgres(Database):
    name = "postgresql"

    async def query(self, statement):
        connection = await asyncpg.connect(self.url)
        try:
            return [dict(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    async def columns(self, table="books"):
        rows = await self.query(
            f"SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '{table}'"
            " ORDER BY ordinal_position"
        )
        return {row["column_name"]: row["data_type"] for row in rows}


def _names(cursor):
    return [name for name, _ in cursor.getdescription()]
