"""What every writer of items does."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Self

from shoal.core.model import StoredItem


class Writer(ABC):
    """Takes items in order and makes a file or a table of them, which is whole once `close` has returned.

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

    @property
    def skipped(self) -> Mapping[str, int]:
        """How many items of each step were passed over, because they lack the key."""
        return {}

    @property
    def places(self) -> Mapping[str, str]:
        """Where the items of each step went, for a writer that parts them."""
        return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()
