"""The partition and the priority that an operator gives to tasks: the same for all, or a column's."""

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, replace
from typing import Any

from shoal.core.model import Task
from shoal.core.values import read_priority, read_text
from shoal.discover.source import Found, Source, each

CONSTANT = ":"  # what a partition begins with that is meant as it stands


@dataclass(frozen=True, slots=True)
class Labels:
    """A partition and a priority as they were given.

    Where a source has columns, a partition is the name of one, unless it begins with a colon; elsewhere it is
    the partition itself. A priority that is a number is meant as such.
    """

    partition: str | None = None
    priority: str | int | None = None

    def columns(self) -> dict[str, str]:
        """Return which column gives what, for a source that has columns."""
        given = {"partition": self.partition, "priority": self.priority}
        return {name: str(value) for name, value in given.items() if _names_a_column(name, value)}

    def label(self, source: Source, *from_columns: str) -> Source:
        """Return the source with what is the same for all its tasks; raises InvalidSetting.

        `from_columns` are the labels that the source takes from its columns itself.
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
    """A source whose tasks are given some fields that it does not find itself."""

    def __init__(self, source: Source, **fields: Any) -> None:
        self._source, self._fields = source, fields

    @property
    def where(self) -> str:
        """Where the source stands."""
        return self._source.where

    async def __aiter__(self) -> AsyncIterator[Found]:
        async for found in each(self._source):
            yield replace(found, **self._fields) if isinstance(found, Task) else found


def _names_a_column(name: str, value: str | int | None) -> bool:
    if value is None:
        return False
    text = str(value).strip()
    return not (text.startswith(CONSTANT) if name == "partition" else text.isdecimal())
