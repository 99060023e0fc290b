"""The interface of all writers, and of the exporters that open them.

That each item is written exactly once is the work of their caller, `fleet/run/results.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import msgspec

from shoal.core.model import StoredItem
from shoal.export.target import OutputTarget


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
        if kind is not None:
            self.discard()
            return
        try:
            self.close()
        except BaseException:
            self.discard()
            raise


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to write."""

    columns: Sequence[str] | None = None  # those to write, in this order; None: all
    key: Sequence[str] = ()  # the fields that identify a row
    envelope: bool = False  # also write where and when each item was found
    raw: bool = False  # leave text that a spreadsheet would run as a formula
    live: bool = False  # what is written must be readable at once
    appends: bool = False  # the file has content, which stays
    by_step: bool = False


class Exporter(msgspec.Struct, frozen=True, kw_only=True):
    """How items are written to files with a suffix, or to addresses with a scheme.

    `open_file` gets the open file, which appears under its name when it is committed; `open_address` gets
    the address as typed.
    """

    open_file: "Callable[[OutputTarget, ExportOptions], Writer] | None" = None
    open_address: Callable[[str, ExportOptions], Writer] | None = None
    can_append: bool = False  # more items may follow those in a file
    can_follow: bool = False  # what is written is readable at once, so a run may write while it runs
    is_text: bool = True  # may be written to stdout
    splits_steps: bool = False  # `open_address` obeys `by_step`
    needs_survey: Callable[[ExportOptions], bool] = lambda options: False  # as the writer's attribute
