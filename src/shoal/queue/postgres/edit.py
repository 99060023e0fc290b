"""Edits of dead letters."""

from collections.abc import Sequence

from shoal.queue.contract import EditFate, LetterEdit
from shoal.queue.intake import QueuedTask
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import EDIT
from shoal.queue.postgres.wire import edit_columns

BATCH = 100  # dead letters of one call
FATES = (EditFate.EDITED, EditFate.DUPLICATE, EditFate.CHANGED)  # as `shoal.edit_dead` numbers them


async def edit(
    server: PostgresServer, run_id: str, edits: Sequence[LetterEdit], entries: Sequence[QueuedTask]
) -> list[EditFate]:
    """Replace the tasks of dead letters, a batch in each call."""
    fates = list[EditFate]()
    for start in range(0, len(edits), BATCH):
        columns = edit_columns(edits[start : start + BATCH], entries[start : start + BATCH])
        (reply,) = (await server.once(EDIT, run_id, *columns))[0]
        fates += [FATES[number] for number in reply]
    return fates
