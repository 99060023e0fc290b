"""Dead letters: listed, replayed, dropped and edited."""

from collections.abc import Callable, Sequence
from datetime import timedelta

import msgspec

from shoal.core.model import ZERO, Attempt, DeadFilter, DeadLetter
from shoal.queue.encoding import micros, moment, since_epoch
from shoal.queue.intake import QueuedTask
from shoal.queue.paging import cursor_of
from shoal.queue.requests import EditFate, LetterEdit
from shoal.queue.sqlite import runs
from shoal.queue.sqlite.counters import DEAD, DELAYED, DROPPED, PENDING, CounterChanges, CounterColumn
from shoal.queue.sqlite.enqueue import host_queue_ids
from shoal.queue.sqlite.store import Page, Store, TaskRecord, as_json

BATCH = 500  # dead letters per transaction
LetterAction = Callable[[Store, Sequence["LetterSelection"]], None]


class LetterSelection(msgspec.Struct, array_like=True, frozen=True):
    """A dead letter that an operator has selected."""

    no: int
    run: int
    host_queue: int
    step_group: int
    place: int


def letters_after(store: Store, run: int, after: int, size: int = BATCH) -> list[int]:
    """Return the numbers of the next dead letters after `after`, without a filter."""
    return store.read("dead_after", list[int], run=run, after=after, limit=size)


def letters_by_id(store: Store, run: int, ids: Sequence[bytes]) -> list[int]:
    """Return the numbers of the dead letters with these ids."""
    return store.read("dead_named", list[int], run=run, ids=as_json([one.hex() for one in ids]))


def filter_letters(store: Store, numbers: Sequence[int], where: DeadFilter) -> list[LetterSelection]:
    """Return the dead letters that meet every condition of a filter."""
    return store.read(
        "dead_matching",
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
    store: Store, action: LetterAction, run_id: str, ids: Sequence[bytes], where: DeadFilter
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
        rows = [(letter.run, letter.host_queue, letter.place, 0, due) for letter in letters]
        store.run_many("delayed_add", rows)
    else:
        store.run_many("ready_add", [(letter.host_queue, letter.place, 0) for letter in letters])
    places = as_json([letter.place for letter in letters])
    store.run("dead_revive", places=places, now=due)
    store.run("expire_again", places=places)
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
        counters.move(letter.host_queue, letter.step_group, DEAD, state)
    counters.write(store)


def edit(store: Store, run_id: str, edits: Sequence[tuple[LetterEdit, QueuedTask]]) -> list[EditFate]:
    """Replace the tasks of dead letters; raises UnknownRun."""
    run, counters = runs.get_row(store, run_id).no, CounterChanges()
    fates = [_edit(store, run, wanted, entry, counters) for wanted, entry in edits]
    counters.write(store)
    return fates


def _edit(
    store: Store, run: int, wanted: LetterEdit, entry: QueuedTask, counters: CounterChanges
) -> EditFate:
    numbers = letters_by_id(store, run, [bytes.fromhex(wanted.letter.id)])
    rows = store.read("dead_read", list[DeadRow], numbers=as_json(numbers))
    if not rows or rows[0].letter() != wanted.letter:
        return EditFate.CHANGED
    if entry.id.hex() != wanted.letter.id and store.value("task_known", run=run, id=entry.id):
        return EditFate.DUPLICATE
    (old,) = filter_letters(store, numbers, DeadFilter())
    name = (entry.step, entry.partition, entry.host)
    host_queue = host_queue_ids(store, run, {name})[name]
    counters.shift(old.host_queue, old.step_group, DEAD, -1)
    counters.shift(host_queue, store.value("host_queue_step_group", host_queue=host_queue), DEAD, 1)
    store.run(
        "dead_edit",
        place=old.place,
        id=entry.id,
        host_queue=host_queue,
        priority=entry.priority,
        url=entry.url,
        key=entry.key,
        payload=None if entry.payload == "{}" else entry.payload,
    )
    _note_edit(store, run, old.place, wanted)
    return EditFate.EDITED


def _note_edit(store: Store, run: int, place: int, wanted: LetterEdit) -> None:
    """Add an entry of attempt 0 to the history, with a token that no lease gets."""
    worker = store.value("worker_number", run=run, worker_id=wanted.by)
    row = (place, store.value("token_draw"), 0, worker, store.now(), wanted.note)
    store.run_many("failure_add", [row])


class DeadRow(msgspec.Struct, array_like=True, frozen=True):
    """A dead letter with its history."""

    no: int
    id: str
    attempts: int
    error: str
    buried_at: int
    task: TaskRecord
    history: list[tuple[int, str, str, int]]

    def letter(self) -> DeadLetter:
        return DeadLetter(
            id=self.id,
            task=self.task.task(),
            attempts=self.attempts,
            error=self.error,
            history=[_attempt(*failure) for failure in self.history],
            buried_at=moment(self.buried_at),
            cursor=cursor_of(self.no),
        )


def _attempt(attempt: int, worker_id: str, text: str, ended_at: int) -> Attempt:
    return Attempt.stored(attempt, worker_id, text, moment(ended_at))


def dead_letters(
    store: Store, after: int, size: int, run_id: str, where: DeadFilter
) -> Page[int, DeadLetter]:
    """Return a page of dead letters."""
    numbers = letters_after(store, runs.get_row(store, run_id).no, after, size)
    if not numbers:
        return None, []
    matching = [letter.no for letter in filter_letters(store, numbers, where)]
    rows = store.read("dead_read", list[DeadRow], numbers=as_json(matching))
    return numbers[-1], [row.letter() for row in rows]


def dead_letters_by_id(
    store: Store, after: int, size: int, run_id: str, where: DeadFilter, ids: Sequence[bytes]
) -> Page[int, DeadLetter]:
    """Return the dead letters with these ids, all in one page."""
    numbers = letters_by_id(store, runs.get_row(store, run_id).no, ids)
    behind = sorted(number for number in numbers if number > after)
    matching = [letter.no for letter in filter_letters(store, behind, where)]
    rows = store.read("dead_read", list[DeadRow], numbers=as_json(matching))
    return None, [row.letter() for row in rows]
