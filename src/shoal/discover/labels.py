"""The partition and priority that an operator sets on tasks: one value for all, or from a column."""

from collections.abc import AsyncIterator, Collection
from typing import Any

import msgspec
from msgspec.structs import replace

from shoal.core.model import Task
from shoal.core.tasks import iterate
from shoal.core.values import read_priority, read_text
from shoal.discover.source import Found, Source

CONSTANT = ":"  # the prefix of a partition that is a literal value


class Labels(msgspec.Struct, frozen=True):
    """A partition and a priority as the operator typed them.

    For a source with columns, a partition is a column name unless it begins with a colon; for other sources
    it is the partition itself. A numeric priority is always a literal value.
    """

    partition: str | None = None
    priority: str | int | None = None

    def columns(self) -> dict[str, str]:
        """Return the column of each label, for a source that has columns."""
        given = {"partition": self.partition, "priority": self.priority}
        return {name: str(value) for name, value in given.items() if _is_column(name, value)}

    def label(self, source: Source, *from_columns: str) -> Source:
        """Return the source with the labels that are the same for all its tasks; raises InvalidSetting.

        `from_columns` are the labels that the source reads from its columns itself.
        """
        constants = self._constants({name for name in self.columns() if name in from_columns})
        return Labelled(source, **constants) if constants else source

    def _constants(self, named: Collection[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.partition is not None and "partition" not in named:
            found["partition"] = read_text("partition", self.partition.removeprefix(CONSTANT))
        if self.priority is not None and "priority" not in named:
            found["priority"] = read_priority("priority", self.priority)
        return found


NO_LABELS = Labels()


class Labelled:
    """A source that sets constant fields on the tasks of another."""

    def __init__(self, source: Source, **fields: Any) -> None:
        self._source, self._fields = source, fields

    @property
    def where(self) -> str:
        """The position of the source."""
        return self._source.where

    async def __aiter__(self) -> AsyncIterator[Found]:
        async for found in iterate(self._source):
            yield replace(found, **self._fields) if isinstance(found, Task) else found


def _is_column(name: str, value: str | int | None) -> bool:
    if value is None:
        return False
    text = str(value).strip()
    return not (text.startswith(CONSTANT) if name == "partition" else text.isdecimal())
