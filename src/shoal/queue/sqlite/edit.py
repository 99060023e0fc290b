"""Edits of dead letters."""

from collections.abc import Sequence

from shoal.core.model import DeadFilter
from shoal.queue.contract import EditFate, LetterEdit
from shoal.queue.intake import QueuedTask
from shoal.queue.sqlite import admin, runs
from shoal.queue.sqlite.encoding import as_json
from shoal.queue.sqlite.read import DeadRow
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.work.counters import DEAD, CounterChanges
from shoal.queue.sqlite.work.enqueue import lane_ids


def edit(store: Store, run_id: str, edits: Sequence[tuple[LetterEdit, QueuedTask]]) -> list[EditFate]:
    """Replace the tasks of dead letters; raises UnknownRun."""
    run, counters = runs.get_row(store, run_id).no, CounterChanges()
    fates = [_edit(store, run, wanted, entry, counters) for wanted, entry in edits]
    counters.write(store)
    return fates


def _edit(
    store: Store, run: int, wanted: LetterEdit, entry: QueuedTask, counters: CounterChanges
) -> EditFate:
    numbers = admin.letters_by_id(store, run, [wanted.letter.id])
    rows = store.read("dead_read", list[DeadRow], numbers=as_json(numbers))
    if not rows or rows[0].letter() != wanted.letter:
        return EditFate.CHANGED
    if entry.id.hex() != wanted.letter.id and store.value("task_known", run=run, id=entry.id):
        return EditFate.DUPLICATE
    (old,) = admin.filter_letters(store, numbers, DeadFilter())
    name = (entry.step, entry.partition, entry.host)
    lane = lane_ids(store, run, {name})[name]
    counters.shift(old.lane, old.section, DEAD, -1)
    counters.shift(lane, store.value("lane_section", lane=lane), DEAD, 1)
    store.run(
        "dead_edit",
        place=old.place,
        id=entry.id,
        lane=lane,
        priority=entry.priority,
        url=entry.url,
        key=entry.key,
        payload=None if entry.payload == "{}" else entry.payload,
    )
    _note(store, run, old.place, wanted)
    return EditFate.EDITED


def _note(store: Store, run: int, place: int, wanted: LetterEdit) -> None:
    """Add an entry of attempt 0 to the history, with a token that no lease gets."""
    worker = store.value("worker_know", run=run, worker_id=wanted.by)
    row = (place, store.value("token_draw"), 0, worker, store.now(), wanted.note)
    store.run_many("failure_add", [row])
