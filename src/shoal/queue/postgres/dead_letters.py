"""Dead letters: listed, replayed, dropped and edited."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

from shoal.core.model import Attempt, DeadFilter, DeadLetter
from shoal.queue.contract import QueueAdmin
from shoal.queue.intake import QueuedTask
from shoal.queue.paging import cursor_of, number_in
from shoal.queue.postgres.enqueue import ENTRY_TYPES, entry_columns
from shoal.queue.postgres.reports import Row, stream_pages, task_from
from shoal.queue.postgres.runs import find_run
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import ONCE, QUERIES, call
from shoal.queue.requests import EditFate, LetterEdit

EDIT_BATCH = 100  # dead letters that one call edits
EDIT_FATES = (EditFate.EDITED, EditFate.DUPLICATE, EditFate.CHANGED)  # as `shoal.edit_dead` numbers them

FILTER_TYPES = ("bytea[]", "text", "text", "text", "text", "timestamptz", "timestamptz")
REPLAY = call("replay", *ONCE, *FILTER_TYPES, "interval")
DROP = call("drop_dead", *ONCE, *FILTER_TYPES)
EDIT = call("edit_dead", *ONCE, "bytea[]", "timestamptz[]", "int[]", "text[]", "text[]", *ENTRY_TYPES)


class PostgresDeadLetters(QueueAdmin):
    """The dead letters of a queue."""

    _server: PostgresServer

    def _dead_letters(
        self, run_id: str, where: DeadFilter, ids: Sequence[bytes] | None, after: str | None
    ) -> AsyncIterator[DeadLetter]:
        if ids is None:
            return stream_pages(self._server, run_id, "dead", _letter, after, *_conditions(where))
        return self._letters_by_id(run_id, ids, where, after)

    async def _letters_by_id(
        self, run_id: str, ids: Sequence[bytes], where: DeadFilter, after: str | None
    ) -> AsyncIterator[DeadLetter]:
        await find_run(self._server, run_id)
        conditions = _conditions(where)
        for found in await self._server.fetch(
            QUERIES["dead_by_id"], run_id, number_in(after), ids, *conditions
        ):
            for row in await self._server.fetch(QUERIES["dead"], run_id, found["id"] - 1, 1, *conditions):
                if row["id"] == found["id"]:
                    yield _letter(row)

    async def _replay(
        self, run_id: str, ids: Sequence[bytes] | None, where: DeadFilter, delay: timedelta
    ) -> int:
        await self.run(run_id)  # raises with the nearest run id if there is none
        return int(
            (await self._server.once(REPLAY, run_id, ids, *_conditions(where), delay, timeout=None))[0][0]
        )

    async def _drop(self, run_id: str, ids: Sequence[bytes] | None, where: DeadFilter) -> int:
        await self.run(run_id)
        return int((await self._server.once(DROP, run_id, ids, *_conditions(where), timeout=None))[0][0])

    async def _edit(self, run_id: str, edits: Sequence[tuple[LetterEdit, QueuedTask]]) -> list[EditFate]:
        fates: list[EditFate] = []
        for start in range(0, len(edits), EDIT_BATCH):
            columns = _edit_columns(edits[start : start + EDIT_BATCH])
            (reply,) = (await self._server.once(EDIT, run_id, *columns))[0]
            fates += [EDIT_FATES[number] for number in reply]
        return fates


def _edit_columns(edits: Sequence[tuple[LetterEdit, QueuedTask]]) -> list[Any]:
    """Return the arguments of `shoal.edit_dead`: how each letter was, who edits it, and its new task."""
    return [
        [bytes.fromhex(edit.letter.id) for edit, _ in edits],
        [edit.letter.buried_at for edit, _ in edits],
        [len(edit.letter.history) for edit, _ in edits],
        [edit.by for edit, _ in edits],
        [edit.note for edit, _ in edits],
        *entry_columns([entry for _, entry in edits]),
    ]


def _conditions(where: DeadFilter) -> list[Any]:
    """Return the filter arguments of the queries."""
    return [
        where.step,
        where.partition,
        where.host,
        where.error,
        where.buried_before,
        where.buried_after,
    ]


def _letter(row: Row) -> DeadLetter:
    history = zip(row["h_attempts"], row["h_workers"], row["h_errors"], row["h_ended"], strict=True)
    return DeadLetter(
        id=row["task"].hex(),
        task=task_from(row),
        attempts=row["attempts"],
        error=row["error"],
        history=tuple(
            Attempt.stored(attempt, worker, text, ended) for attempt, worker, text, ended in history
        ),
        buried_at=row["buried_at"],
        cursor=cursor_of(row["id"]),
    )
