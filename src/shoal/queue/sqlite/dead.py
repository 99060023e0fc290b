"""Dead letters put back or given up, singly or in bulk."""

from collections.abc import Callable, Sequence

import msgspec

from shoal.core.model import DeadFilter
from shoal.queue.sqlite import runs
from shoal.queue.sqlite.moment import since_epoch
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.tally import DEAD, DROPPED, PENDING, Column, Tally
from shoal.queue.sqlite.texts import as_json

AT_ONCE = 500
Act = Callable[[Store, Sequence["Meant"]], None]


class Meant(msgspec.Struct, array_like=True, frozen=True):
    """A dead letter that an operator means."""

    no: int
    lane: int
    section: int
    place: int


def page(store: Store, run: int, after: int, size: int = AT_ONCE) -> list[int]:
    """Return the numbers of the next dead letters behind `after`, whatever they are."""
    return store.read("dead_after", list[int], run=run, after=after, limit=size)


def named(store: Store, run: int, ids: Sequence[str]) -> list[int]:
    """Return the numbers of the dead letters with these ids."""
    return store.read("dead_named", list[int], run=run, ids=as_json(ids))


def meant(store: Store, numbers: Sequence[int], where: DeadFilter) -> list[Meant]:
    """Return those of the dead letters that meet every condition."""
    return store.read(
        "dead_meant",
        list[Meant],
        numbers=as_json(numbers),
        step=where.step,
        partition=where.partition,
        host=where.host,
        error=where.error,
        before=since_epoch(where.buried_before) if where.buried_before else None,
        after=since_epoch(where.buried_after) if where.buried_after else None,
    )


def last(store: Store, run_id: str) -> int:
    """Return the number of the youngest dead letter of a run; raises UnknownRun."""
    number: int = store.value("dead_last", run=runs.known(store, run_id).no)
    return number


def treat_named(store: Store, act: Act, run_id: str, ids: Sequence[str], where: DeadFilter) -> int:
    """Replay or drop those of the dead letters with these ids that meet the conditions."""
    numbers = named(store, runs.known(store, run_id).no, ids)
    letters = meant(store, numbers, where)
    act(store, letters)
    return len(letters)


def treat_page(
    store: Store, act: Act, run_id: str, after: int, until: int, where: DeadFilter
) -> tuple[int, int]:
    """Replay or drop those of the next dead letters that meet the conditions.

    Returns how many, and the number behind which to go on.
    """
    numbers = [number for number in page(store, runs.known(store, run_id).no, after) if number <= until]
    letters = meant(store, numbers, where)
    act(store, letters)
    return len(letters), numbers[-1] if numbers else until


def replay(store: Store, letters: Sequence[Meant]) -> None:
    """Make dead letters pending again, with no attempt counted and a new time to live."""
    _remove(store, letters)
    store.many("ready_add", [(letter.lane, letter.place, 0) for letter in letters])
    places = as_json([letter.place for letter in letters])
    store.tell("dead_revive", places=places, now=store.now())
    store.tell("mortal_again", places=places)
    _count(store, letters, PENDING)


def drop(store: Store, letters: Sequence[Meant]) -> None:
    """Give dead letters up; their tasks stay, so that their keys stay taken."""
    store.tell("dropped_add", numbers=as_json([letter.no for letter in letters]), now=store.now())
    _remove(store, letters)
    _count(store, letters, DROPPED)


def _remove(store: Store, letters: Sequence[Meant]) -> None:
    store.tell("dead_remove", numbers=as_json([letter.no for letter in letters]))


def _count(store: Store, letters: Sequence[Meant], state: Column) -> None:
    tally = Tally()
    for letter in letters:
        tally.move(letter.lane, letter.section, DEAD, state)
    tally.write(store)
