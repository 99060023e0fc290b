"""The interface of all writers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Self

from shoal.core.model import StoredItem


class Writer(ABC):
    """Writes items in order to a file or a table, which is complete once `close` has returned.

    As a context manager it closes, or discards after an error.
    """

    needs_survey = False  # must see all items before writing the first, to know the columns

    def survey(self, items: Sequence[StoredItem]) -> None:  # noqa: B027 - most writers do not need it
        """Look at items that will be written."""

    @abstractmethod
    def write(self, items: Sequence[StoredItem]) -> None:
        """Write a batch of items."""

    @abstractmethod
    def close(self) -> None:
        """Finish the file or table and make it visible under its name."""

    @abstractmethod
    def discard(self) -> None:
        """Abort: an existing file or table stays as it was. Does nothing after `close`."""

    @property
    def skipped(self) -> Mapping[str, int]:
        """The number of items skipped per step, because they lack the key."""
        return {}

    @property
    def locations(self) -> Mapping[str, str]:
        """The file or table of each step, for a writer that splits by step."""
        return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()
