"""Stores the tracebacks of dead letters."""

from collections.abc import Sequence
from contextlib import suppress

from shoal.core.errors import QueueError
from shoal.core.failures import failure_text
from shoal.core.model import Bury, Fate, Outcome
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import QUERIES


async def add_tracebacks(server: PostgresServer, outcomes: Sequence[Outcome], fates: Sequence[Fate]) -> None:
    """Add tracebacks to the history of tasks that were just buried."""
    buried = [
        outcome
        for outcome, fate in zip(outcomes, fates, strict=True)
        if fate is Fate.ACCEPTED and isinstance(outcome, Bury) and outcome.traceback
    ]
    if not buried:
        return
    # The outcomes are stored: an error here must not let the caller settle them again.
    with suppress(QueueError):
        await server.fetch(
            QUERIES["add_tracebacks"],
            [bytes.fromhex(outcome.lease.task_id) for outcome in buried],
            [outcome.lease.token for outcome in buried],
            [failure_text(outcome) for outcome in buried],
        )
