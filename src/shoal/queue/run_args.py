"""The arguments of a run, stored in the queue for its workers and the command that resumes it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from shoal.queue.contract import Queue

TOPIC = "run arguments"
TTL = timedelta(days=3_650)  # longer than any run


async def stored_args(queue: Queue, run_id: str) -> Mapping[str, Any] | None:
    """Return the arguments that a run was created with; None if it has stored none."""
    note = (await queue.notes(TOPIC, [run_id])).get(run_id)
    return None if note is None else _decode(note.value)


async def write_args(queue: Queue, run_id: str, args: Mapping[str, Any] | None) -> None:
    """Store the arguments of a run; None removes them."""
    value = None if args is None else msgspec.json.encode(args)
    await queue.write_notes(TOPIC, {run_id: value}, ttl=TTL)


_decode = msgspec.json.Decoder(dict[str, Any]).decode
