"""What every writer of items does."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

from shoal.core.model import StoredItem


class Writer(ABC):
    """Takes items in order and makes a file of them, which is there once `close` has returned.

    As a context it closes, or after an error discards.
    """

    needs_survey = False  # must see all items before it writes the first, to know the columns

    def survey(self, items: Sequence[StoredItem]) -> None:  # noqa: B027 - most have no need of it
        """Take note of items that are going to be written."""

    @abstractmethod
    def write(self, items: Sequence[StoredItem]) -> None:
        """Write some more items."""

    @abstractmethod
    def close(self) -> None:
        """Finish the file and put it under its name."""

    @abstractmethod
    def discard(self) -> None:
        """Give up: what was under the name before stays. After `close` it does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()
