"""What operators and supervisors change: dead letters, host limits, heartbeats, abandoned workers."""

from collections.abc import Callable, Sequence
from datetime import timedelta

import msgspec

from shoal.core.model import ZERO, DeadFilter
from shoal.queue.sqlite import runs
from shoal.queue.sqlite.encoding import as_json, micros, since_epoch
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.work.counters import DEAD, DELAYED, DROPPED, PENDING, CounterChanges, CounterColumn
from shoal.queue.sqlite.work.settle_batch import LiveLease, SettleBatch

BATCH = 500  # dead letters per transaction
LetterAction = Callable[[Store, Sequence["LetterSelection"]], None]


# Dead letters


class LetterSelection(msgspec.Struct, array_like=True, frozen=True):
    """A dead letter that an operator has selected."""

    no: int
    run: int
    lane: int
    section: int
    place: int


def letters_after(store: Store, run: int, after: int, size: int = BATCH) -> list[int]:
    """Return the numbers of the next dead letters after `after`, without a filter."""
    return store.read("dead_after", list[int], run=run, after=after, limit=size)


def letters_by_id(store: Store, run: int, ids: Sequence[str]) -> list[int]:
    """Return the numbers of the dead letters with these ids."""
    return store.read("dead_named", list[int], run=run, ids=as_json(ids))


def filter_letters(store: Store, numbers: Sequence[int], where: DeadFilter) -> list[LetterSelection]:
    """Return the dead letters that meet every condition of a filter."""
    return store.read(
        "dead_meant",
        list[LetterSelection],
        numbers=as_json(numbers),
        step=where.step,
        partition=where.partition,
        host=where.host,
        error=where.error,
        before=since_epoch(where.buried_before) if where.buried_before else None,
        after=since_epoch(where.buried_after) if where.buried_after else None,
    )


def last_letter(store: Store, run_id: str) -> int:
    """Return the number of the newest dead letter of a run; raises UnknownRun."""
    number: int = store.value("dead_last", run=runs.get_row(store, run_id).no)
    return number


def apply_to_ids(
    store: Store, action: LetterAction, run_id: str, ids: Sequence[str], where: DeadFilter
) -> int:
    """Replay or drop the dead letters with these ids that match the filter; return their number."""
    numbers = letters_by_id(store, runs.get_row(store, run_id).no, ids)
    letters = filter_letters(store, numbers, where)
    action(store, letters)
    return len(letters)


def apply_to_page(
    store: Store, action: LetterAction, run_id: str, after: int, until: int, where: DeadFilter
) -> tuple[int, int]:
    """Replay or drop the next dead letters that match the filter.

    Returns their number, and the number of the letter after which to continue.
    """
    run = runs.get_row(store, run_id).no
    numbers = [number for number in letters_after(store, run, after) if number <= until]
    letters = filter_letters(store, numbers, where)
    action(store, letters)
    return len(letters), numbers[-1] if numbers else until


def replay(store: Store, letters: Sequence[LetterSelection], delay: timedelta = ZERO) -> None:
    """Make dead letters pending again, with no attempts and a new time to live, which follows the delay."""
    _remove(store, letters)
    due = store.now() + micros(delay)
    if delay:
        rows = [(letter.run, letter.lane, letter.place, 0, due) for letter in letters]
        store.run_many("delayed_add", rows)
    else:
        store.run_many("ready_add", [(letter.lane, letter.place, 0) for letter in letters])
    places = as_json([letter.place for letter in letters])
    store.run("dead_revive", places=places, now=due)
    store.run("mortal_again", places=places)
    _count(store, letters, DELAYED if delay else PENDING)


def drop(store: Store, letters: Sequence[LetterSelection]) -> None:
    """Drop dead letters; their tasks stay, so that their keys stay taken."""
    store.run("dropped_add", numbers=as_json([letter.no for letter in letters]), now=store.now())
    _remove(store, letters)
    _count(store, letters, DROPPED)


def _remove(store: Store, letters: Sequence[LetterSelection]) -> None:
    store.run("dead_remove", numbers=as_json([letter.no for letter in letters]))


def _count(store: Store, letters: Sequence[LetterSelection], state: CounterColumn) -> None:
    counters = CounterChanges()
    for letter in letters:
        counters.move(letter.lane, letter.section, DEAD, state)
    counters.write(store)


# Hosts


def pause_host(store: Store, name: str, duration: timedelta) -> None:
    """Send no requests to a host for a while; zero ends a pause."""
    host = store.value("host_know", name=name)
    if duration == ZERO:
        store.run("host_unpause", host=host)
    else:
        store.run_many("host_treat", [(host, store.now() + micros(duration), None)])
    store.run("arm", lanes="[]", hosts=as_json([host]))


def slow_host(store: Store, name: str, delay: timedelta) -> None:
    """Set a host's own delay; zero removes it."""
    host = store.value("host_know", name=name)
    store.run("host_slow", host=host, delay=micros(delay))
    store.run("arm", lanes="[]", hosts=as_json([host]))


# Workers


def beat(store: Store, run_id: str, beats: Sequence[tuple[str, str, str]]) -> None:
    """Record heartbeats of workers, their ids, states and what they do; raises UnknownRun."""
    run, now = runs.get_row(store, run_id).no, store.now()
    for worker_id, state, info in beats:
        store.run("worker_beat", run=run, worker_id=worker_id, state=state, info=info, now=now)


def abandon(store: Store, worker_id: str, once: Sequence[str], reason: str) -> int:
    """End every lease of a worker, and return their number.

    Tasks of the steps `once` die; the others become pending again.
    """
    abandoned = store.read("lease_of_worker", list[LiveLease], worker_id=worker_id)
    if abandoned:
        run_numbers = as_json(sorted({held.run for held in abandoned}))
        buried = set(store.read("sections_of", list[int], runs=run_numbers, steps=as_json(once)))
        batch = SettleBatch(store)
        for held in abandoned:
            if held.section in buried:
                batch.fail(held, reason, bury=True)
            else:
                batch.release(held)
        batch.write()
    return len(abandoned)
