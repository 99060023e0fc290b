"""The dead letters and the items of all runs, each as one list: the newest run first."""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from shoal.core.errors import UnknownRun
from shoal.core.model import DeadFilter, DeadLetter, Run, StoredItem
from shoal.core.values import read_whole
from shoal.fleet.status.rows.letters import RunLetterRow, short_payload
from shoal.fleet.status.rows.tasks import RunItemRow
from shoal.queue.contract import QueueReports

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FromRun(Generic[T]):
    """A dead letter or an item, and its run."""

    run: Run
    value: T
    position: str  # in the list of its run

    @property
    def cursor(self) -> str:
        """The value for `after` that continues the list of all runs."""
        return f"{self.run.id} {self.position}"


async def all_letters(
    queue: QueueReports, where: DeadFilter = DeadFilter(), *, after: str | None = None
) -> AsyncIterator[FromRun[DeadLetter]]:
    """Stream the dead letters of all runs, the oldest of each run first."""
    for run, position in await _runs_from(queue, after):
        with suppress(UnknownRun):  # deleted meanwhile
            async for letter in queue.dead(run.id, where, after=position):
                yield FromRun(run, letter, letter.cursor)


async def all_items(
    queue: QueueReports, *, step: str | None = None, after: str | None = None
) -> AsyncIterator[FromRun[StoredItem]]:
    """Stream the items of all runs, each run's in the order in which they were stored."""
    for run, position in await _runs_from(queue, after):
        number = read_whole("after", position or "0", least=0)
        with suppress(UnknownRun):
            async for item in queue.items(run.id, step=step, after=number):
                yield FromRun(run, item, str(item.id))


async def _runs_from(queue: QueueReports, after: str | None) -> list[tuple[Run, str | None]]:
    """Return the runs from the one of a cursor on, and where to begin in each; raises UnknownRun."""
    name, _, position = (after or "").partition(" ")
    runs = list(await queue.runs())
    ids = [run.id for run in runs]
    if name and name not in ids:
        raise UnknownRun(name, ids)
    return [(run, position if run.id == name else None) for run in runs[ids.index(name) if name else 0 :]]


def run_letter_row(one: FromRun[DeadLetter]) -> RunLetterRow:
    """Return a dead letter for the list of all runs."""
    letter = one.value
    return RunLetterRow.of(letter, letter.task, run_id=one.run.id, payload=short_payload(letter.task.payload))


def run_item_row(one: FromRun[StoredItem]) -> RunItemRow:
    """Return an item for the list of all runs."""
    return RunItemRow.of(one.value, run_id=one.run.id)
