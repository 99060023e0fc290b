"""The interface of database tables."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from shoal.export.table import Kind
from shoal.export.tables.columns import ColumnType, NameRules


class TableColumn(msgspec.Struct, frozen=True):
    """A column as the database has it."""

    name: str
    type: str
    column_type: ColumnType


class Table(ABC):
    """A table with upserts by key. The connection is opened on first use.

    Driver errors are raised as ExportFailed or InvalidSetting.
    """

    rules: NameRules
    location: str  # its name in messages
    name: str  # quoted for SQL

    @abstractmethod
    def columns(self) -> Mapping[str, TableColumn]:
        """Return the columns by name; empty if the table does not exist."""

    @abstractmethod
    def create(self, kinds: Mapping[str, Kind], key: Sequence[str]) -> None:
        """Create the table with these columns."""

    @abstractmethod
    def add(self, kinds: Mapping[str, Kind]) -> None:
        """Add columns."""

    @abstractmethod
    def widen(self, column: TableColumn, kind: Kind) -> None:
        """Change the type of a column for another kind, and keep its values."""

    @abstractmethod
    def advice(self, column: TableColumn, kind: Kind) -> str:
        """Return what to type so that a column accepts another kind."""

    @abstractmethod
    def upsert(
        self, columns: Sequence[TableColumn], key: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Insert rows; a row with an existing key updates these columns. The last of equal keys wins."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the transaction."""

    @abstractmethod
    def close(self) -> None:
        """Roll back what was not committed, and close the connection."""
