"""What a writer asks of a table in a database."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.export.columns import Holds
from shoal.export.kinds import Kind
from shoal.export.names import NameRules


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the database has it."""

    name: str
    type: str
    holds: Holds


class Table(ABC):
    """A table that takes rows by their key. Nothing is opened before it is first asked for something.

    Driver errors come as ExportFailed or InvalidSetting.
    """

    rules: NameRules
    place: str  # what to call it in a message
    name: str  # as SQL writes it

    @abstractmethod
    def columns(self) -> Mapping[str, Column]:
        """Return the columns by name; none when there is no such table."""

    @abstractmethod
    def create(self, kinds: Mapping[str, Kind], key: Sequence[str]) -> None:
        """Make the table with these columns."""

    @abstractmethod
    def add(self, kinds: Mapping[str, Kind]) -> None:
        """Add columns."""

    @abstractmethod
    def widen(self, column: Column, kind: Kind) -> None:
        """Give a column the type for another kind, and keep what it holds."""

    @abstractmethod
    def advice(self, column: Column, kind: Kind) -> str:
        """Return what to type so that a column takes another kind."""

    @abstractmethod
    def upsert(self, columns: Sequence[Column], key: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add rows; one whose key is there replaces what these columns hold. The last of equals wins."""

    @abstractmethod
    def commit(self) -> None:
        """Make all since the last commit last."""

    @abstractmethod
    def close(self) -> None:
        """Give up what was not committed, and let the database go."""
