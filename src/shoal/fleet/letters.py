"""One dead letter among many."""

from shoal.core.errors import UnknownLetter
from shoal.core.model import DeadLetter
from shoal.queue.contract import Queue


async def find_letter(queue: Queue, run_id: str, letter_id: str) -> DeadLetter:
    """Return a dead letter by its id; raises UnknownLetter."""
    async for letter in queue.dead(run_id, ids=[letter_id]):
        return letter
    raise UnknownLetter(run_id, letter_id)
